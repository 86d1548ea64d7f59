// Shows that an Executor runs everything it is given exactly once: on one thread, piece by piece;
// in a seeded order, which is a function of the seed; and on a pool, where results lie in plain
// memory, so that a missing order between threads is a data race.

#include "mp/host/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace mp::host {
namespace {

using ::testing::Each;

std::unique_ptr<Executor> NewExecutor(Execution execution, int threads = 3, uint64_t seed = 1) {
  return Executor::Create({.threads = threads, .execution = execution, .seed = seed}).value();
}

// Runs all that is ready; how many things that was.
int HelpAll(Executor& executor) {
  AwakeWait awake(executor);
  int helped = 0;
  while (executor.HelpOnce()) ++helped;
  return helped;
}

class Call : public Runnable {
 public:
  explicit Call(std::function<void()> body) : body_(std::move(body)) {}
  void Run() override { body_(); }

 private:
  std::function<void()> body_;
};

// Notes its pieces, and that it is finished after all of them.
class Pieces : public Job {
 public:
  explicit Pieces(int64_t count, std::string* order = nullptr)
      : runs(static_cast<size_t>(count), 0), order_(order) {}
  void RunPiece(int64_t piece) override {
    EXPECT_EQ(finishes, 0);
    ++runs[static_cast<size_t>(piece)];
    if (order_ != nullptr) absl::StrAppend(order_, piece, " ");
  }
  void Finish() override {
    EXPECT_THAT(runs, Each(1));
    ++finishes;
    if (order_ != nullptr) absl::StrAppend(order_, "end ");
  }
  int64_t count() const { return static_cast<int64_t>(runs.size()); }

  std::vector<int> runs;
  int finishes = 0;

 private:
  std::string* order_;
};

constexpr Execution kAlone[] = {Execution::kInline, Execution::kSeeded};

TEST(Executor, SaysHowItRuns) {
  const auto in_line = NewExecutor(Execution::kInline), seeded = NewExecutor(Execution::kSeeded),
             pool = NewExecutor(Execution::kPool);
  EXPECT_TRUE(in_line->runs_at_once() && pool->runs_at_once());
  EXPECT_FALSE(in_line->steps_singly() || pool->steps_singly());
  EXPECT_TRUE(!seeded->runs_at_once() && seeded->steps_singly());
  EXPECT_FALSE(in_line->has_threads() || seeded->has_threads());
  EXPECT_TRUE(pool->has_threads());
  for (const auto* executor : {&in_line, &seeded, &pool}) EXPECT_EQ((*executor)->lanes(), 3);
  EXPECT_EQ(NewExecutor(Execution::kInline, 0)->lanes(), sync::CoreCount());
}

TEST(Executor, HasNothingToDoAtFirst) {
  for (const Execution execution : kAlone) {
    const auto executor = NewExecutor(execution);
    EXPECT_EQ(HelpAll(*executor), 0);
  }
}

TEST(Executor, RunsWhatIsSubmittedInOrder) {
  const auto executor = NewExecutor(Execution::kInline);
  std::vector<int> ran, expected;
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(std::make_unique<Call>([&ran, i] { ran.push_back(i); }));
    executor->Submit(*calls.back());
    expected.push_back(i);
  }
  EXPECT_EQ(HelpAll(*executor), 100);
  EXPECT_EQ(ran, expected);
}

TEST(Executor, RunsEachPieceOnceAndFinishesLast) {
  for (const Execution execution : kAlone) {
    for (const int lanes : {1, 2, 3, 7}) {
      const auto executor = NewExecutor(execution, lanes);
      for (int64_t count = 1; count <= 20; ++count) {
        Pieces pieces(count);
        executor->Share(pieces, count);
        EXPECT_EQ(HelpAll(*executor), count);
        EXPECT_THAT(pieces.runs, Each(1));
        EXPECT_EQ(pieces.finishes, 1);
      }
    }
  }
}

TEST(Executor, AJobCanBeSharedAgain) {
  const auto executor = NewExecutor(Execution::kInline);
  Pieces pieces(5);
  for (int round = 1; round <= 3; ++round) {
    executor->Share(pieces, 5);
    EXPECT_EQ(HelpAll(*executor), 5);
    EXPECT_EQ(pieces.finishes, 1);
    pieces.finishes = 0;
    pieces.runs.assign(5, 0);
  }
}

TEST(Executor, TakesMoreFromWhatItRuns) {
  for (const Execution execution : kAlone) {
    const auto executor = NewExecutor(execution);
    int left = 50;
    Pieces pieces(4);
    std::unique_ptr<Call> again;
    again = std::make_unique<Call>([&] {
      if (--left > 0) {
        executor->Submit(*again);
      } else {
        executor->Share(pieces, 4);
      }
    });
    executor->Submit(*again);
    EXPECT_EQ(HelpAll(*executor), 54);
    EXPECT_EQ(left, 0);
    EXPECT_EQ(pieces.finishes, 1);
  }
}

TEST(Executor, AJobMayEndItselfWhenItFinishes) {
  // A use of it afterwards would be one of freed memory.
  class Ending : public Job {
   public:
    explicit Ending(int* finished) : finished_(finished) {}
    void RunPiece(int64_t /*piece*/) override {}
    void Finish() override {
      ++*finished_;
      delete this;
    }

   private:
    int* finished_;
  };
  int finished = 0;
  const auto executor = NewExecutor(Execution::kInline);
  for (int i = 0; i < 3; ++i) executor->Share(*new Ending(&finished), 1 + i);
  EXPECT_EQ(HelpAll(*executor), 6);
  EXPECT_EQ(finished, 3);
}

// The order in which 10 calls, and two jobs of 10 pieces, run.
std::string OrderOf(uint64_t seed) {
  const auto executor = NewExecutor(Execution::kSeeded, 3, seed);
  std::string order;
  Pieces one(10, &order), other(10, &order);
  std::vector<std::unique_ptr<Call>> calls;
  executor->Share(one, 10);
  for (char name = 'A'; name < 'K'; ++name) {
    calls.push_back(std::make_unique<Call>([&order, name] { order += name; }));
    executor->Submit(*calls.back());
  }
  executor->Share(other, 10);
  EXPECT_EQ(HelpAll(*executor), 30);
  EXPECT_EQ(one.finishes + other.finishes, 2);
  for (char name = 'A'; name < 'K'; ++name) {
    EXPECT_EQ(std::count(order.begin(), order.end(), name), 1);
  }
  return order;
}

TEST(Executor, TheSeedDecidesTheOrder) {
  std::vector<std::string> orders, of_calls, of_pieces;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    orders.push_back(OrderOf(seed));
    EXPECT_EQ(OrderOf(seed), orders.back()) << "seed " << seed;
    for (auto* only : {&of_calls, &of_pieces}) only->emplace_back();
    for (const char c : orders.back()) {
      (c >= 'A' && c <= 'Z' ? of_calls : of_pieces).back() += c;
    }
  }
  for (auto* list : {&orders, &of_calls, &of_pieces}) {
    std::sort(list->begin(), list->end());
    EXPECT_EQ(std::unique(list->begin(), list->end()), list->end()) << "two seeds, one order";
  }
}

TEST(Executor, APoolRunsAllByItself) {
  for (const int threads : {1, 2, 4}) {
    const auto executor = NewExecutor(Execution::kPool, threads);
    constexpr int kCalls = 2000, kJobs = 100;
    sync::Atomic<int> left{kCalls + kJobs};
    sync::Signal done;
    const auto count_down = [&] {
      if (left.fetch_sub(1, sync::kSeqCst) == 1) done.Raise();
    };
    class Counted : public Pieces {
     public:
      Counted(int64_t count, std::function<void()> then) : Pieces(count), then_(std::move(then)) {}
      void Finish() override {
        Pieces::Finish();
        then_();
      }

     private:
      std::function<void()> then_;
    };
    std::vector<int> ran(kCalls, 0);
    std::vector<std::unique_ptr<Call>> calls;
    std::vector<std::unique_ptr<Counted>> jobs;
    for (size_t i = 0; i < kCalls; ++i) {
      calls.push_back(std::make_unique<Call>([&ran, &count_down, i] { ++ran[i], count_down(); }));
      executor->Submit(*calls.back());
      if (i % (kCalls / kJobs) != 0) continue;
      jobs.push_back(std::make_unique<Counted>(1 + static_cast<int64_t>(i) % 17, count_down));
      executor->Share(*jobs.back(), jobs.back()->count());
    }
    while (true) {
      const uint32_t seen = done.Prepare();
      if (left.load(sync::kSeqCst) == 0) break;
      done.Sleep(sync::Clock::Steady(), seen, absl::InfiniteDuration());
    }
    done.Cancel();
    EXPECT_THAT(ran, Each(1));
    for (const auto& job : jobs) EXPECT_EQ(job->finishes, 1);
  }
}

TEST(Executor, WhoSharesAndHelpsRunsAllThatNobodyTakes) {
  for (const int lanes : {1, 2, 3, 7}) {
    const auto executor = NewExecutor(Execution::kInline, lanes);
    for (int64_t count = 1; count <= 20; ++count) {
      Pieces pieces(count);
      EXPECT_TRUE(executor->ShareAndHelp(pieces, count));
      EXPECT_THAT(pieces.runs, Each(1));
      EXPECT_EQ(pieces.finishes, 0) << "is the caller's";
      EXPECT_EQ(HelpAll(*executor), 0);
    }
  }
}

TEST(Executor, OneOfThoseWhoShareAJobEndsIt) {
  const auto executor = NewExecutor(Execution::kPool, 2);
  class Ended : public Pieces {
   public:
    Ended(int64_t count, sync::Signal* signal, sync::Atomic<int>* ends)
        : Pieces(count), signal_(signal), ends_(ends) {}
    void Finish() override {
      Pieces::Finish();
      sync::Signal& signal = *signal_;
      ends_->fetch_add(1, sync::kSeqCst);  // then this may be gone
      signal.Raise();
    }

   private:
    sync::Signal* signal_;
    sync::Atomic<int>* ends_;
  };
  sync::Signal done;
  sync::Atomic<int> ends{0};
  int own = 0;
  for (int round = 1; round <= 2000; ++round) {
    Ended pieces(1 + round % 7, &done, &ends);
    if (executor->ShareAndHelp(pieces, pieces.count())) {
      ++own;
      EXPECT_EQ(pieces.finishes, 0);
    } else {
      while (true) {
        const uint32_t seen = done.Prepare();
        if (ends.load(sync::kSeqCst) + own == round) break;
        done.Sleep(sync::Clock::Steady(), seen, absl::InfiniteDuration());
      }
      done.Cancel();
      EXPECT_EQ(pieces.finishes, 1);
    }
    ASSERT_THAT(pieces.runs, Each(1));
    ASSERT_EQ(ends.load(sync::kSeqCst) + own, round);
  }
}

// The sharer's own piece ends while the other one is still under way.
TEST(Executor, WhoSharesDoesNotEndAJobOfWhichAnotherStillHasAPiece) {
  const auto executor = NewExecutor(Execution::kInline, 2);
  class TwoAtOnce : public Pieces {
   public:
    TwoAtOnce() : Pieces(2), sharer_(sync::ThisThread()) {}
    void RunPiece(int64_t piece) override {
      Pieces::RunPiece(piece);
      if (sync::ThisThread() == sharer_) {
        while (!helped.load()) sync::Yield();
      } else {
        helped = true;
        while (!returned.load()) sync::Yield();
      }
    }
    void Finish() override {
      EXPECT_NE(sync::ThisThread(), sharer_);
      Pieces::Finish();
    }
    sync::Atomic<bool> helped{false}, returned{false};

   private:
    const uint64_t sharer_;
  };
  TwoAtOnce job;
  sync::Thread helper = sync::Thread::Start("helper", [&] {
                          AwakeWait awake(*executor);
                          while (!executor->HelpOnce()) sync::Yield();
                        }).value();
  EXPECT_FALSE(executor->ShareAndHelp(job, 2));
  job.returned = true;
  helper.Join();
  EXPECT_EQ(job.finishes, 1);
}

// --- who is woken --------------------------------------------------------------------------------

// Whether what `act` does wakes a thread that sleeps for work.
bool Wakes(Executor& executor, const std::function<void()>& act) {
  sync::FakeClock clock;
  const uint32_t seen = executor.signal().Prepare();
  act();
  return executor.signal().Sleep(clock, seen, absl::Seconds(1));
}

TEST(Executor, WakesASleeperUnlessSomebodyIsAwake) {
  for (const Execution execution : kAlone) {
    const auto executor = NewExecutor(execution);
    Call call([] {});
    Pieces pieces(2);
    EXPECT_FALSE(Wakes(*executor, [] {}));
    EXPECT_TRUE(Wakes(*executor, [&] { executor->Submit(call); }));
    EXPECT_TRUE(Wakes(*executor, [&] { executor->Share(pieces, 2); }));
    EXPECT_EQ(HelpAll(*executor), 3);
    Call other([] {});
    EXPECT_FALSE(Wakes(*executor, [&] {
      executor->EnterWait();
      executor->Submit(other);
    }));
    // The one awake did not take it, and goes.
    EXPECT_TRUE(Wakes(*executor, [&] { executor->LeaveWait(); }));
    EXPECT_EQ(HelpAll(*executor), 1);
    EXPECT_FALSE(Wakes(*executor, [&] { AwakeWait awake(*executor); }));
  }
}

// Whoever takes the first piece of three, with as many drivers; the rest is left to them, who come
// when they wait.
TEST(Executor, APieceTakenWakesNobodyWhereEachCoreHasADriver) {
  const auto executor = NewExecutor(Execution::kInline, 2);
  for (const int drivers : {0, 1, 2, 3}) {
    executor->AddDriver(drivers);
    Pieces pieces(3);
    Call call([] {});
    executor->Share(pieces, 3);
    AwakeWait awake(*executor);
    EXPECT_EQ(Wakes(*executor, [&] { executor->HelpOnce(); }), drivers < 2) << drivers;
    // Something else could be any user's work, of any length.
    executor->Submit(call);
    EXPECT_TRUE(Wakes(*executor, [&] { executor->HelpOnce(); })) << "the call, before two pieces";
    EXPECT_EQ(HelpAll(*executor), 2);
    EXPECT_EQ(pieces.finishes, 1);
    executor->AddDriver(-drivers);
  }
}

TEST(Executor, WhoRunsSomethingIsNotAwake) {
  const auto executor = NewExecutor(Execution::kInline, 1);
  bool awake = true, crowded = true;
  Call call([&] { awake = executor->somebody_waits_awake(); });
  executor->Submit(call);
  EXPECT_FALSE(executor->somebody_waits_awake());
  {
    AwakeWait one(*executor);
    EXPECT_TRUE(executor->somebody_waits_awake());
    EXPECT_FALSE(executor->crowded());
    EXPECT_TRUE(executor->HelpOnce());
    EXPECT_TRUE(executor->somebody_waits_awake());
    AwakeWait other(*executor);
    crowded = executor->crowded();
  }
  EXPECT_FALSE(awake);
  EXPECT_TRUE(crowded) << "two threads wait for one core";
  EXPECT_FALSE(executor->somebody_waits_awake());
}

TEST(Patience, ComesToAnEnd) {
  // How often a thread looks before it sleeps.
  const auto looks = [](const Executor& executor, Patience& patience) {
    int count = 0;
    while (patience.Spin(executor)) ++count;
    return count;
  };
  const auto executor = NewExecutor(Execution::kInline, 1);
  Patience patience;
  const int alone = looks(*executor, patience);
  EXPECT_GT(alone, 10);
  patience.Reset();
  EXPECT_EQ(looks(*executor, patience), alone);
  AwakeWait one(*executor), other(*executor);
  patience.Reset();
  EXPECT_LT(looks(*executor, patience), alone) << "others want the core";
  Patience none;
  EXPECT_EQ(looks(*NewExecutor(Execution::kSeeded), none), 0);
}

}  // namespace
}  // namespace mp::host
