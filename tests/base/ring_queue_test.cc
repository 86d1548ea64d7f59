// Shows that a RingQueue is a queue: seeded programs of every call are compared with std::deque
// after each step, from every position of the first element in its block.  That it holds nothing
// longer than it must and allocates nothing in steady use is counted in instances of its elements.

#include "mp/base/ring_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace mp {
namespace {

void ExpectSame(RingQueue<int>& queue, const std::deque<int>& expected) {
  ASSERT_EQ(queue.size(), expected.size());
  EXPECT_EQ(queue.empty(), expected.empty());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(queue[i], expected[i]) << i;
  if (!expected.empty()) {
    EXPECT_EQ(queue.front(), expected.front());
    EXPECT_EQ(queue.back(), expected.back());
  }
}

TEST(RingQueue, IsEmptyAtFirst) {
  RingQueue<int> queue;
  ExpectSame(queue, {});
  queue.RemoveIf([](int) { return true; });
  ExpectSame(queue, {});
}

TEST(RingQueue, GivesBackWhatWasPushedInOrder) {
  // 0 to 40 elements cross the sizes at which the block doubles; `skipped` moves the first element
  // through the block beforehand, so that it doubles while the queue lies across its end.
  for (int skipped = 0; skipped < 17; ++skipped) {
    RingQueue<int> queue;
    std::deque<int> expected;
    for (int i = 0; i < skipped; ++i) {
      queue.Push(-i);
      ASSERT_EQ(queue.Pop(), -i);
    }
    for (int i = 0; i < 40; ++i) {
      queue.Push(i);
      expected.push_back(i);
      ExpectSame(queue, expected);
    }
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(queue.Pop(), i);
      expected.pop_front();
      ExpectSame(queue, expected);
    }
  }
}

TEST(RingQueue, ElementsCanBeChangedInPlace) {
  RingQueue<int> queue;
  for (int i = 0; i < 10; ++i) queue.Push(i);
  queue.front() = 100;
  queue[9] = 109;
  std::swap(queue.front(), queue[4]);
  ExpectSame(queue, {4, 1, 2, 3, 100, 5, 6, 7, 8, 109});
}

TEST(RingQueue, RemoveIfKeepsTheOthersInOrder) {
  // Every subset of up to 9 elements, from every position in a block of 8 or 16.
  for (size_t size = 0; size <= 9; ++size) {
    for (uint32_t subset = 0; subset < (1u << size); ++subset) {
      for (int skipped = 0; skipped < 8; ++skipped) {
        RingQueue<int> queue;
        for (int i = 0; i < skipped; ++i) {
          queue.Push(0);
          queue.Pop();
        }
        std::deque<int> expected;
        for (size_t i = 0; i < size; ++i) {
          queue.Push(static_cast<int>(i));
          if ((subset >> i & 1) == 0) expected.push_back(static_cast<int>(i));
        }
        queue.RemoveIf([subset](int i) { return (subset >> i & 1) != 0; });
        ExpectSame(queue, expected);
        queue.Push(77);
        expected.push_back(77);
        ExpectSame(queue, expected);
      }
    }
  }
}

TEST(RingQueue, IsADequeInEveryProgram) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    RingQueue<int> queue;
    std::deque<int> expected;
    for (int step = 0; step < 300; ++step) {
      const uint64_t choice = random() % 16;
      if (choice == 0) {
        const int divisor = 2 + static_cast<int>(random() % 3);
        const auto chosen = [divisor](int i) { return i % divisor == 0; };
        queue.RemoveIf(chosen);
        expected.erase(std::remove_if(expected.begin(), expected.end(), chosen), expected.end());
      } else if (choice == 1 && !expected.empty()) {
        ASSERT_EQ(queue.PopBack(), expected.back());
        expected.pop_back();
      } else if (choice < 8 && !expected.empty()) {
        ASSERT_EQ(queue.Pop(), expected.front());
        expected.pop_front();
      } else {
        queue.Push(step);
        expected.push_back(step);
      }
      ExpectSame(queue, expected);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(RingQueue, HoldsWhatCanOnlyBeMoved) {
  RingQueue<std::unique_ptr<int>> queue;
  for (int i = 0; i < 20; ++i) queue.Push(std::make_unique<int>(i));
  queue.RemoveIf([](const std::unique_ptr<int>& i) { return *i % 2 != 0; });
  for (int i = 0; i < 20; i += 2) EXPECT_EQ(*queue.Pop(), i);
  EXPECT_TRUE(queue.empty());
}

TEST(RingQueue, LetsGoOfWhatItNoLongerHolds) {
  const auto token = std::make_shared<int>(0);
  RingQueue<std::shared_ptr<int>> queue;
  for (int i = 0; i < 10; ++i) queue.Push(token);
  EXPECT_EQ(token.use_count(), 11);
  queue.Pop();
  EXPECT_EQ(token.use_count(), 10);
  queue.PopBack();
  EXPECT_EQ(token.use_count(), 9);
  queue.Push(token);
  int turn = 0;
  queue.RemoveIf([&turn](const std::shared_ptr<int>&) { return turn++ % 3 == 0; });
  EXPECT_EQ(queue.size(), 6u);
  EXPECT_EQ(token.use_count(), 7);
  queue.RemoveIf([](const std::shared_ptr<int>&) { return true; });
  EXPECT_EQ(token.use_count(), 1);
}

TEST(RingQueue, LetsGoOfWhatCanOnlyBeCopied) {
  struct Copied {
    Copied() = default;
    explicit Copied(std::shared_ptr<int> t) : token(t) {}
    Copied(const Copied&) = default;
    Copied& operator=(const Copied&) = default;
    std::shared_ptr<int> token;
  };
  const auto token = std::make_shared<int>(0);
  RingQueue<Copied> queue;
  for (int i = 0; i < 3; ++i) queue.Push(Copied(token));
  EXPECT_EQ(token.use_count(), 4);
  queue.Pop();
  EXPECT_EQ(token.use_count(), 3);
}

// Counts the blocks' slots: they exist as long as the block does.
class Counted {
 public:
  explicit Counted(int* live = nullptr) : live_(live) { Count(1); }
  Counted(Counted&& other) noexcept : live_(other.live_) { Count(1); }
  Counted& operator=(Counted&& other) noexcept {
    Count(-1);
    live_ = other.live_;
    Count(1);
    return *this;
  }
  ~Counted() { Count(-1); }

  static int slots;

 private:
  void Count(int by) {
    slots += by;
    if (live_ != nullptr) *live_ += by;
  }
  int* live_;
};
int Counted::slots = 0;

TEST(RingQueue, KeepsItsBlockAndAllocatesNothingInSteadyUse) {
  RingQueue<Counted> queue;
  for (int i = 0; i < 8; ++i) queue.Push(Counted());
  const int slots = Counted::slots;
  EXPECT_EQ(slots, 8);
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 1 + round % 8; ++i) queue.Pop();
    while (queue.size() < 8) queue.Push(Counted());
    ASSERT_EQ(Counted::slots, slots);
  }
  while (!queue.empty()) queue.Pop();
  EXPECT_EQ(Counted::slots, slots);
}

}  // namespace
}  // namespace mp
