// Proves that accesses to plain memory are told exactly where nothing orders them: programs whose
// every schedule is right, and the same with an order or a lock too few.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/explore/explore.h"
#include "tests/explore/sync.h"

namespace mp::explore {
namespace {

using sync::Atomic;
using sync::kAcquire;
using sync::kRelaxed;
using sync::kRelease;

// Whether some schedule of the two has a race.
bool Races(const std::function<void()>& setup, const std::function<void()>& one,
           const std::function<void()>& other) {
  const Outcome outcome = Explore({.points = -1, .runs = 100'000}, [&] {
    setup();
    sync::Thread first = sync::Thread::Start("one", one).value();
    sync::Thread second = sync::Thread::Start("other", other).value();
  });
  EXPECT_TRUE(outcome.complete || absl::StartsWith(outcome.failure, "data race: "))
      << Describe(outcome);
  return !outcome.failure.empty();
}

bool MessageRaces(Order store, Order load) {
  std::unique_ptr<Atomic<int>> flag;
  std::unique_ptr<int> data;
  return Races(
      [&] {
        flag = std::make_unique<Atomic<int>>(0);
        data = std::make_unique<int>(0);
      },
      [&] {
        *data = 1;
        flag->store(1, store);
      },
      [&] {
        if (flag->load(load) == 1) Expect(*data == 1, "not the message");
      });
}

TEST(RaceTest, AMessageInPlainMemoryNeedsReleaseAndAcquire) {
  EXPECT_FALSE(MessageRaces(kRelease, kAcquire));
  EXPECT_TRUE(MessageRaces(kRelaxed, kAcquire));
  EXPECT_TRUE(MessageRaces(kRelease, kRelaxed));
}

TEST(RaceTest, ALockOrders) {
  std::unique_ptr<sync::Mutex> mutex;
  int value = 0;
  const auto setup = [&] { mutex = std::make_unique<sync::Mutex>(); };
  const auto locked = [&] {
    sync::MutexLock lock(*mutex);
    ++value;
  };
  EXPECT_FALSE(Races(setup, locked, locked));
  EXPECT_TRUE(Races(setup, locked, [&] { ++value; }));
}

TEST(RaceTest, BytesSideBySideAreNotOne) {
  std::vector<char> bytes(8);
  const auto setup = [&] { bytes.assign(8, 0); };
  EXPECT_FALSE(Races(
      setup, [&] { bytes[3] = 1; }, [&] { bytes[4] = 1; }));
  EXPECT_TRUE(Races(
      setup, [&] { bytes[3] = 1; }, [&] { bytes[3] = 1; }));
}

// The last to let go frees; what the other one has done must have been before.
bool FreeingRaces(Order order) {
  struct Shared {
    Atomic<int> owners{2};
    int value = 0;
  };
  Shared* shared = nullptr;
  const auto let_go = [&] {
    Expect(shared->value == 0, "the value");
    if (shared->owners.fetch_sub(1, order) == 1) delete shared;
  };
  return Races([&] { shared = new Shared; }, let_go, let_go);
}

TEST(RaceTest, WhatIsFreedMustHaveBeenUsedBefore) {
  EXPECT_FALSE(FreeingRaces(sync::kAcqRel));
  EXPECT_TRUE(FreeingRaces(kRelease));
  EXPECT_TRUE(FreeingRaces(kAcquire));
}

TEST(RaceTest, AnAtomicMustBeMadeBeforeItIsUsed) {
  const auto races = [](Order store, Order load) {
    Atomic<Atomic<int>*> published{nullptr};
    std::unique_ptr<Atomic<int>> made;
    return Races([&] { published.store(nullptr, kRelaxed); },
                 [&] {
                   made = std::make_unique<Atomic<int>>(7);
                   published.store(made.get(), store);
                 },
                 [&] {
                   Atomic<int>* const got = published.load(load);
                   if (got != nullptr) got->fetch_add(1, kRelaxed);
                 });
  };
  EXPECT_FALSE(races(kRelease, kAcquire));
  EXPECT_TRUE(races(kRelaxed, kAcquire));
}

}  // namespace
}  // namespace mp::explore
