// Proves that the explorer finds what memory orders, locks and waits allow, and nothing else: small
// programs whose possible ends are known, each explored to the last schedule.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/explore/explore.h"
#include "tests/explore/sync.h"
#include "tests/explore/weakening.h"

namespace mp::explore {
namespace {

using sync::Atomic;
using sync::kAcqRel;
using sync::kAcquire;
using sync::kRelaxed;
using sync::kRelease;
using sync::kSeqCst;

constexpr Options kAll = {.points = -1, .exhaustive = {.stale = 4, .early = 0}, .runs = 1'000'000};

void OnThreads(const std::vector<std::function<void()>>& bodies) {
  std::vector<sync::Thread> threads;
  for (const auto& body : bodies) {
    threads.push_back(sync::Thread::Start(absl::StrCat("t", threads.size()), body).value());
  }
}

// Whatever `program` can end in, over all schedules.
std::set<std::string> Ends(const std::function<std::string()>& program, bool reduce = true,
                           uint64_t* runs = nullptr) {
  std::set<std::string> ends;
  Options options = kAll;
  options.exhaustive.reduce = reduce;
  const Outcome outcome = Explore(options, [&] { ends.insert(program()); });
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(outcome.complete) << Describe(outcome);
  if (runs != nullptr) *runs = outcome.runs;
  return ends;
}

using Strings = std::set<std::string>;

std::string MessagePassing(Order store, Order load) {
  Atomic<int> data{0}, flag{0};
  int got_flag = 0, got_data = 0;
  OnThreads({[&] {
               data.store(1, kRelaxed);
               flag.store(1, store);
             },
             [&] {
               got_flag = flag.load(load);
               got_data = data.load(kRelaxed);
             }});
  return absl::StrCat(got_flag, got_data);
}

TEST(LitmusTest, AMessageIsPassedByReleaseAndAcquireTogether) {
  const Strings right = {"00", "01", "11"};
  const Strings wrong = {"00", "01", "10", "11"};
  EXPECT_EQ(Ends([] { return MessagePassing(kRelease, kAcquire); }), right);
  EXPECT_EQ(Ends([] { return MessagePassing(kSeqCst, kSeqCst); }), right);
  EXPECT_EQ(Ends([] { return MessagePassing(kRelaxed, kAcquire); }), wrong);
  EXPECT_EQ(Ends([] { return MessagePassing(kRelease, kRelaxed); }), wrong);
}

std::string StoreBuffering(Order store, Order load) {
  Atomic<int> x{0}, y{0};
  int a = 0, b = 0;
  OnThreads({[&] {
               x.store(1, store);
               a = y.load(load);
             },
             [&] {
               y.store(1, store);
               b = x.load(load);
             }});
  return absl::StrCat(a, b);
}

TEST(LitmusTest, OnlySequentialConsistencyForbidsBothToMissTheOther) {
  EXPECT_EQ(Ends([] { return StoreBuffering(kSeqCst, kSeqCst); }), Strings({"01", "10", "11"}));
  const Strings any = {"00", "01", "10", "11"};
  EXPECT_EQ(Ends([] { return StoreBuffering(kRelease, kAcquire); }), any);
  EXPECT_EQ(Ends([] { return StoreBuffering(kSeqCst, kAcquire); }), any);
}

TEST(LitmusTest, TheValuesOfOnePlaceNeverGoBack) {
  EXPECT_EQ(Ends([] {
              Atomic<int> x{0};
              int a = 0, b = 0;
              OnThreads({[&] { x.store(1, kRelaxed), x.store(2, kRelaxed); },
                         [&] { a = x.load(kRelaxed), b = x.load(kRelaxed); }});
              return absl::StrCat(a, b);
            }),
            Strings({"00", "01", "02", "11", "12", "22"}));
}

TEST(LitmusTest, TwoReadersMayDisagreeUnlessAllIsInOneOrder) {
  const auto program = [](Order order) {
    Atomic<int> x{0}, y{0};
    int a = 0, b = 0, c = 0, d = 0;
    OnThreads({[&] { x.store(1, order); }, [&] { y.store(1, order); },
               [&] {
                 a = x.load(order == kRelease ? kAcquire : order),
                 b = y.load(order == kRelease ? kAcquire : order);
               },
               [&] {
                 c = y.load(order == kRelease ? kAcquire : order),
                 d = x.load(order == kRelease ? kAcquire : order);
               }});
    return absl::StrCat(a, b, c, d);
  };
  EXPECT_TRUE(Ends([&] { return program(kRelease); }).contains("1010"));
  EXPECT_FALSE(Ends([&] { return program(kSeqCst); }).contains("1010"));
}

TEST(LitmusTest, AReadModifyWriteTakesTheLastValueAndHandsOnWhatItCarries) {
  EXPECT_EQ(Ends([] {
              Atomic<int> x{0};
              OnThreads({[&] { x.fetch_add(1, kRelaxed); }, [&] { x.fetch_add(1, kRelaxed); },
                         [&] { x.fetch_add(1, kRelaxed); }});
              return absl::StrCat(x.load(kRelaxed));
            }),
            Strings({"3"}));
  const auto chain = [](Order middle_is_update) {
    Atomic<int> data{0}, flag{0};
    int got = -1;
    OnThreads({[&] { data.store(1, kRelaxed), flag.store(1, kRelease); },
               [&] {
                 if (middle_is_update == kRelaxed) {
                   flag.fetch_add(1, kRelaxed);
                 } else if (flag.load(kRelaxed) == 1) {
                   flag.store(2, kRelaxed);
                 }
               },
               [&] {
                 if (flag.load(kAcquire) == 2) got = data.load(kRelaxed);
               }});
    return absl::StrCat(got);
  };
  EXPECT_EQ(Ends([&] { return chain(kRelaxed); }), Strings({"-1", "1"}));
  EXPECT_EQ(Ends([&] { return chain(kRelease); }), Strings({"-1", "0", "1"}));
}

TEST(LitmusTest, LocksExcludeAndCarry) {
  EXPECT_EQ(Ends([] {
              sync::Mutex mutex;
              Atomic<int> x{0};
              const auto add = [&] {
                sync::MutexLock lock(mutex);
                x.store(x.load(kRelaxed) + 1, kRelaxed);
              };
              OnThreads({add, add, add});
              return absl::StrCat(x.load(kRelaxed));
            }),
            Strings({"3"}));
}

TEST(LitmusTest, ReductionLeavesAllEndsAndFewerRuns) {
  const auto program = [] {
    Atomic<int> x{0}, y{0}, z{0};
    int a = 0, b = 0;
    OnThreads({[&] { x.store(1, kRelaxed), a = y.load(kRelaxed), z.fetch_add(1, kRelaxed); },
               [&] { y.store(1, kRelaxed), b = x.load(kRelaxed), z.fetch_add(2, kRelaxed); }});
    return absl::StrCat(a, b, z.load(kRelaxed));
  };
  uint64_t reduced, all;
  EXPECT_EQ(Ends(program, true, &reduced), Ends(program, false, &all));
  EXPECT_LT(reduced * 3, all);
}

// --- waits ---------------------------------------------------------------------------------------

// The waiter looks before it prepares, or prepares before it looks.
std::string WaitFor(bool prepares_first) {
  Atomic<int> ready{0};
  sync::Signal signal;
  OnThreads({[&] {
               ready.exchange(1, kSeqCst);
               signal.Raise();
             },
             [&] {
               while (true) {
                 if (!prepares_first && ready.load(kSeqCst) == 1) return;
                 const uint32_t seen = signal.Prepare();
                 if (prepares_first && ready.load(kSeqCst) == 1) return signal.Cancel();
                 signal.Sleep(sync::Clock::Steady(), seen, absl::InfiniteDuration());
               }
             }});
  return "over";
}

TEST(LitmusTest, ALostWakeUpIsADeadlockThatIsToldWithWhoWaitsWhere) {
  Options options = kAll;
  options.exhaustive.early = 1;
  const Outcome right = Explore(options, [] { WaitFor(true); });
  EXPECT_EQ(right.failure, "");
  EXPECT_TRUE(right.complete);
  const Outcome wrong = Explore(options, [] { WaitFor(false); });
  EXPECT_NE(wrong.failure.find("deadlock"), std::string::npos) << wrong.failure;
  EXPECT_NE(wrong.failure.find("t1: sleep"), std::string::npos) << wrong.failure;
  EXPECT_NE(wrong.failure.find("main: join"), std::string::npos) << wrong.failure;
}

TEST(LitmusTest, TwoLocksInCrossedOrderAreADeadlock) {
  const auto body = [] {
    sync::Mutex a, b;
    OnThreads({[&] {
                 sync::MutexLock first(a);
                 sync::MutexLock second(b);
               },
               [&] {
                 sync::MutexLock first(b);
                 sync::MutexLock second(a);
               }});
  };
  const Outcome outcome = Explore(kAll, body);
  EXPECT_NE(outcome.failure.find("t0: lock tests/explore/litmus_test.cc"), std::string::npos)
      << outcome.failure;
}

TEST(LitmusTest, AnEarlyWakeUpIsTriedWhereNoLoopExpectsIt) {
  const auto body = [] {
    Atomic<uint32_t> word{0};
    OnThreads({[&] { word.store(1, kRelease), sync::Wake(word); },
               [&] {
                 sync::Clock::Steady().Wait(word, 0, absl::InfiniteDuration());
                 Expect(word.fetch_add(0, kAcquire) == 1, "awake before it was woken");
               }});
  };
  Options options = kAll;
  EXPECT_EQ(Explore(options, body).failure, "");
  options.exhaustive.early = 1;
  EXPECT_EQ(Explore(options, body).failure, "awake before it was woken");
}

TEST(LitmusTest, TimePassesWhenAllWait) {
  const Outcome outcome = Explore(kAll, [] {
    Atomic<uint32_t> word{0};
    sync::Clock& clock = sync::Clock::Steady();
    const absl::Duration start = clock.Now();
    const auto sleep = [&](absl::Duration timeout) {
      return [&clock, &word, start, timeout] {
        Expect(!clock.Wait(word, 0, timeout), "nobody wakes");
        Expect(clock.Now() - start == timeout, "the time of the wait");
      };
    };
    OnThreads({sleep(absl::Hours(2)), sleep(absl::Seconds(3)), sleep(absl::Milliseconds(1))});
  });
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(outcome.complete);
}

TEST(LitmusTest, ALoopThatNobodyEndsIsTold) {
  const Outcome outcome = Explore(kAll, [] {
    Atomic<int> x{0};
    OnThreads({[&] {
      while (x.load(kAcquire) == 0) sync::Yield();
    }});
  });
  EXPECT_NE(outcome.failure.find("livelock"), std::string::npos) << outcome.failure;
}

// --- strategies ----------------------------------------------------------------------------------

void RacyBody() {
  Atomic<int> x{0}, done{0};
  const auto add = [&] { x.store(x.load(kRelaxed) + 1, kRelaxed), done.fetch_add(1, kAcqRel); };
  OnThreads({add, add, add, add, add, add, add, add});
  Expect(x.load(kRelaxed) > 2, absl::StrCat("x is ", x.load(kRelaxed)));
}

TEST(LitmusTest, RandomRunsFindARaceOfEightAndTheTokenRepeatsIt) {
  const Outcome found = Explore({.runs = 20'000}, RacyBody);
  ASSERT_NE(found.failure, "");
  for (int i = 0; i < 3; ++i) {
    const Outcome again = Explore({.replay = found.token}, RacyBody);
    EXPECT_EQ(again.failure, found.failure);
    EXPECT_EQ(again.runs, 1u);
  }
}

TEST(LitmusTest, ATokenOfAnExhaustiveRunRepeatsIt) {
  std::string ends, first;
  const auto body = [&] {
    ends = StoreBuffering(kRelease, kAcquire);
    Expect(ends != "00", "both missed the other");
  };
  const Outcome found = Explore(kAll, body);
  ASSERT_EQ(found.failure, "both missed the other");
  const Outcome again = Explore({.points = -1, .replay = found.token}, body);
  EXPECT_EQ(again.failure, found.failure) << found.token;
  EXPECT_EQ(again.steps, Explore({.points = -1, .replay = found.token}, body).steps);
}

// Two threads of n points each have (2n)! / (n! n!) schedules.
TEST(LitmusTest, EveryScheduleIsRunOnce) {
  for (const int points : {1, 2, 4, 6}) {
    const Options options = {
        .points = points, .exhaustive = {.stale = 0, .early = 0, .reduce = false}, .runs = 10'000};
    const Outcome outcome = Explore(options, [] {
      Atomic<int> x{0};
      Gate gate(2);
      const auto body = [&] {
        gate.Pass();
        for (int i = 0; i < 10; ++i) x.fetch_add(1, kRelaxed);
      };
      OnThreads({body, body});
    });
    const uint64_t kExpected[] = {0, 2, 6, 20, 70, 252, 924};
    EXPECT_TRUE(outcome.complete);
    EXPECT_EQ(outcome.failure, "");
    EXPECT_EQ(outcome.runs, kExpected[points]) << points;
  }
}

TEST(LitmusTest, EachWeakenedOrderIsNoticed) {
  const auto body = [] {
    const std::string end = MessagePassing(kRelease, kAcquire);
    Expect(end != "10", end);
  };
  NoteOrders(true);
  EXPECT_EQ(Explore(kAll, body).failure, "");
  NoteOrders(false);
  int noticed = 0;
  for (const Weakening& weakening : PossibleWeakenings("tests/explore/litmus_test.cc")) {
    Weaken(&weakening);
    noticed += Explore(kAll, body).failure == "10";
    Weaken(nullptr);
  }
  EXPECT_EQ(noticed, 2);
  EXPECT_EQ(Explore(kAll, body).failure, "");
}

}  // namespace
}  // namespace mp::explore
