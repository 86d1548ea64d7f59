// Locks exclude, signals are not lost, threads join, and the fake clock moves when it is waited on.
// Under TSan this also shows that TSan understands the lock.

#include "mp/base/sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/status_matchers.h"

namespace mp::sync {
namespace {

using ::mp::test::IsOk;

void OnThreads(int count, const std::function<void(int)>& body) {
  std::vector<Thread> threads;
  for (int i = 0; i < count; ++i) {
    ASSERT_OK_AND_ASSIGN(Thread thread, Thread::Start("test", [&body, i] { body(i); }));
    threads.push_back(std::move(thread));
  }
}

TEST(Mutex, LetsOneThreadInAtATime) {
  constexpr int kThreads = 4, kRounds = 20000;
  Mutex mutex;
  int64_t count = 0, seen = 0;  // guarded by mutex
  OnThreads(kThreads, [&](int) {
    for (int i = 0; i < kRounds; ++i) {
      MutexLock lock(mutex);
      ++count;
      seen += count;
    }
  });
  const int64_t all = kThreads * kRounds;
  EXPECT_EQ(count, all);
  EXPECT_EQ(seen, all * (all + 1) / 2);
}

TEST(Mutex, LetsASleeperIn) {
  // The holder keeps it until the other surely wants it, longer than anybody spins.
  Mutex mutex;
  Atomic<int> wants{0};
  bool held = false;
  OnThreads(2, [&](int which) {
    if (which == 0) {
      mutex.Lock();
      held = true;
      wants.fetch_add(1);
      while (wants.load() < 2) Yield();
      for (int i = 0; i < 2000; ++i) Yield();
      held = false;
      mutex.Unlock();
    } else {
      while (wants.load() < 1) Yield();
      wants.fetch_add(1);
      MutexLock lock(mutex);
      EXPECT_FALSE(held);
    }
  });
}

TEST(Mutex, TryLockFailsWhereItIsHeld) {
  Mutex mutex;
  ASSERT_TRUE(mutex.TryLock());
  OnThreads(1, [&](int) { EXPECT_FALSE(mutex.TryLock()); });
  mutex.Unlock();
  OnThreads(1, [&](int) {
    EXPECT_TRUE(mutex.TryLock());
    mutex.Unlock();
  });
}

// Two threads hand a number back and forth; a raise that got lost would leave both asleep.
TEST(Signal, IsNotLost) {
  constexpr int kRounds = 5000;
  Signal signals[2];
  Atomic<int> turn{0};
  OnThreads(2, [&](int which) {
    for (int round = 0; round < kRounds; ++round) {
      const auto ready = [&] { return turn.load(kSeqCst) == 2 * round + which; };
      while (!ready()) {
        const uint32_t seen = signals[which].Prepare();
        if (ready()) {
          signals[which].Cancel();
        } else {
          signals[which].Sleep(Clock::Steady(), seen, absl::InfiniteDuration());
        }
      }
      turn.fetch_add(1, kSeqCst);
      signals[1 - which].Raise();
    }
  });
  EXPECT_EQ(turn.load(), 2 * kRounds);
}

TEST(Signal, WakesAllWhoSleep) {
  Signal signal;
  Atomic<int> asleep{0}, raised{0};
  OnThreads(5, [&](int which) {
    if (which == 0) {
      while (asleep.load() < 4) Yield();
      raised.fetch_add(1, kSeqCst);
      signal.Raise();
      return;
    }
    asleep.fetch_add(1);
    while (raised.load(kSeqCst) == 0) {
      const uint32_t seen = signal.Prepare();
      if (raised.load(kSeqCst) != 0) {
        signal.Cancel();
      } else {
        signal.Sleep(Clock::Steady(), seen, absl::InfiniteDuration());
      }
    }
  });
  EXPECT_EQ(raised.load(), 1);
}

TEST(SteadyClock, GoesForwardAndEndsWaits) {
  Clock& clock = Clock::Steady();
  const absl::Duration before = clock.Now();
  Atomic<uint32_t> word{7};
  EXPECT_FALSE(clock.Wait(word, 7, absl::Milliseconds(2)));
  EXPECT_GE(clock.Now(), before + absl::Milliseconds(2));
  EXPECT_FALSE(clock.Wait(word, 7, absl::ZeroDuration()));
  EXPECT_TRUE(clock.Wait(word, 8, absl::ZeroDuration()));
  EXPECT_TRUE(clock.Wait(word, 8, absl::InfiniteDuration()));  // it is not 8: no wait
}

TEST(FakeClock, MovesByWhatIsWaited) {
  FakeClock clock;
  EXPECT_EQ(clock.Now(), absl::ZeroDuration());
  Atomic<uint32_t> word{7};
  EXPECT_TRUE(clock.Wait(word, 8, absl::Seconds(5)));
  EXPECT_EQ(clock.Now(), absl::ZeroDuration());
  EXPECT_FALSE(clock.Wait(word, 7, absl::Seconds(5)));
  EXPECT_EQ(clock.Now(), absl::Seconds(5));
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(clock.Now(), absl::Hours(1) + absl::Seconds(5));
}

TEST(FakeClock, EndsTheProcessWhereNothingCouldEndTheWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  FakeClock clock;
  Atomic<uint32_t> word{7};
  EXPECT_DEATH(clock.Wait(word, 7, absl::InfiniteDuration()), "mp is broken");
}

TEST(Thread, JoinsWhenItGoesAndWhenItIsReplaced) {
  Atomic<int> ran{0};
  {
    ASSERT_OK_AND_ASSIGN(Thread thread, Thread::Start("a name that is too long", [&] { ++ran; }));
    EXPECT_TRUE(thread.joinable());
    ASSERT_OK_AND_ASSIGN(Thread other, Thread::Start("other", [&] { ran += 10; }));
    other.Join();
    EXPECT_FALSE(other.joinable());
    other.Join();
    thread = std::move(other);
    EXPECT_EQ(ran.load(), 11);
  }
  EXPECT_FALSE(Thread().joinable());
}

TEST(ThisThread, IsAnotherNumberOnEveryThread) {
  std::vector<uint64_t> numbers(5);
  numbers[4] = ThisThread();
  EXPECT_EQ(numbers[4], ThisThread());
  OnThreads(4, [&](int i) { numbers[static_cast<size_t>(i)] = ThisThread(); });
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NE(numbers[i], 0u);
    for (size_t j = 0; j < i; ++j) EXPECT_NE(numbers[i], numbers[j]);
  }
  EXPECT_GE(CoreCount(), 1);
}

TEST(LimitCores, HoldsForThreadsMadeAfterwards) {
  const int all = CoreCount();
  int limited = 0, of_child = 0;
  auto thread = Thread::Start("limited", [&] {
    LimitCores(all + 1);
    EXPECT_EQ(CoreCount(), all);
    LimitCores(1);
    limited = CoreCount();
    auto child = Thread::Start("child", [&] { of_child = CoreCount(); });
    ASSERT_OK(child);
    child->Join();
  });
  ASSERT_OK(thread);
  thread->Join();
  EXPECT_EQ(limited, 1);
  EXPECT_EQ(of_child, 1);
  EXPECT_EQ(CoreCount(), all);
}

}  // namespace
}  // namespace mp::sync
