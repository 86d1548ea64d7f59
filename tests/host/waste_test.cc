// A small AllReduce of ready inputs with hot workers allocates nothing, calls the system for
// nothing and wakes nobody; without work the workers rest; and what a World takes does not grow
// with the message.
//
// Counted by a malloc, and by a filter of the kernel's, over the whole process.  Where other
// programs want the cores a rank loses its own in the middle of an operation, and its peers, who
// wait for longer than they spin, look for a deadlock and sleep: so of many runs of operations one
// has to cost nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/base/check.h"
#include "mp/base/sync.h"
#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/support/allocations.h"
#include "tests/support/child.h"
#include "tests/support/status_matchers.h"
#include "tests/support/system_calls.h"

namespace mp::test {
namespace {

constexpr int64_t kCount = 64;
constexpr int kOperations = 10;  // of a run
constexpr int kFirst = 100;

// n ranks, each with kCount ones.
struct Ranks {
  explicit Ranks(int n, int64_t count = kCount) {
    backend = host::NewBackend({.devices = n}).value();
    world = World::Create(backend).value();
    for (int r = 0; r < n; ++r) values.emplace_back(static_cast<size_t>(count), r == 0 ? 1.f : 0.f);
    for (auto& one : values) views.emplace_back(one.data(), DType::kF32, Shape{count});
  }
  const TensorView& of(const Rank& rank) const { return views[static_cast<size_t>(rank.id())]; }

  std::shared_ptr<Backend> backend;
  std::unique_ptr<World> world;
  std::vector<std::vector<float>> values;
  std::vector<TensorView> views;
};

struct Counted {
  int64_t allocations = 0;
  SystemCalls calls;
};

// Runs `run` until it has cost nothing or ten seconds have passed, and tells the least that it has
// cost.  The first runs only warm up.
template <typename Run>
Counted LeastOf(const Run& run) {
  sync::Clock& clock = sync::Clock::Steady();
  const absl::Duration end = clock.Now() + absl::Seconds(10);
  sync::Atomic<uint32_t> word{0};
  Counted least{INT64_MAX, {.all = INT64_MAX}};
  for (int i = 0; least.calls.all > 0 || least.allocations > 0; ++i) {
    if (clock.Now() > end) break;
    // Who has slept gets a core that is free, if there is one.
    if (i % 8 == 7) clock.Wait(word, 0, absl::Milliseconds(1));
    const int64_t allocations = AllocationCount();
    const SystemCalls calls = SystemCallsSoFar();
    run();
    const Counted cost{AllocationCount() - allocations, SystemCallsSoFar() - calls};
    if (i >= kFirst && cost.calls.all < least.calls.all) least = cost;
  }
  return least;
}

std::string Found(const Counted& counted) {
  return absl::StrCat(counted.allocations, " allocations, ", ToString(counted.calls));
}

constexpr char kNothing[] = "0 allocations, 0 system calls: 0 futex waits, 0 wakes, 0 yields";

class WasteOf : public ::testing::TestWithParam<int> {};

// The filter stays until the process ends, so that each test counts in a child of its own,
// and leaves what has threads to the child's end.
TEST(SystemCallCounter, CountsOnEveryThread) {
  const std::string found = InChild([]() -> std::string {
    sync::Atomic<uint32_t> word{0};
    sync::Atomic<int> asked{0}, done{0};
    new sync::Thread(sync::Thread::Start("other", [&] {
                       while (asked.load() == 0) sync::Pause();
                       for (int i = 0; i < 5; ++i) sync::Yield();
                       for (int i = 0; i < 3; ++i) sync::Wake(word);
                       done = 1;
                       while (true) sync::Pause();
                     }).value());
    if (!CountSystemCalls()) return "no filter";
    const SystemCalls before = SystemCallsSoFar();
    asked = 1;
    while (done.load() == 0) sync::Pause();
    sync::Clock::Steady().Wait(word, 0, absl::Microseconds(1));
    getppid();
    return ToString(SystemCallsSoFar() - before);
  });
  EXPECT_EQ(found, "10 system calls: 1 futex waits, 3 wakes, 5 yields");
}

TEST(AllocationCounter, CountsBlocksAndBytes) {
  const int64_t count = AllocationCount(), live = LiveBytes();
  ResetPeakBytes();
  auto* block = new char[100'000];
  asm volatile("" : : "r"(block) : "memory");
  EXPECT_EQ(AllocationCount() - count, 1);
  EXPECT_GE(LiveBytes() - live, 100'000);
  delete[] block;
  EXPECT_EQ(LiveBytes(), live);
  EXPECT_GE(PeakBytes() - live, 100'000);
}

TEST_P(WasteOf, NoneAtTheCallDoor) {
  EXPECT_EQ(InChild([]() -> std::string {
              const Ranks& ranks = *new Ranks(GetParam());
              if (!CountSystemCalls()) return "no filter";
              return Found(LeastOf([&] {
                for (int i = 0; i < kOperations; ++i) {
                  MP_CHECK(ranks.world->region().AllReduce(ranks.views).ok());
                  MP_CHECK(ranks.world->Synchronize().ok());
                }
              }));
            }),
            kNothing);
}

INSTANTIATE_TEST_SUITE_P(Ranks, WasteOf, ::testing::Values(2, 4, 8));

// Two ranks: with more ranks than cores they must make room for each other.
TEST(Waste, NoneAtTheRankDoor) {
  EXPECT_EQ(InChild([]() -> std::string {
              const Ranks& ranks = *new Ranks(2);
              if (!CountSystemCalls()) return "no filter";
              std::string found;
              // Which run is the last one: rank 0 says so before it begins it.
              sync::Atomic<int> last{INT_MAX};
              const absl::Status ran = ranks.world->Run([&](Rank& rank) -> absl::Status {
                int runs = 0;
                const auto run = [&] {
                  ++runs;
                  for (int i = 0; i < kOperations; ++i) {
                    MP_CHECK(rank.region().AllReduce(ranks.of(rank)).ok());
                    MP_CHECK(rank.stream().Synchronize().ok());
                  }
                };
                if (rank.id() == 0) {
                  found = Found(LeastOf(run));
                  last = runs;
                  run();
                }
                while (rank.id() != 0 && runs <= last.load()) run();
                return absl::OkStatus();
              });
              return ran.ok() ? found : ran.ToString();
            }),
            kNothing);
}

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The threads of the World and of the pool have just worked, and have nothing more to do.
TEST(Waste, NoCoreIsUsedWithoutWork) {
  const Ranks ranks(4);
  ASSERT_OK(ranks.world->Run([&](Rank& rank) -> absl::Status {
    for (int i = 0; i < kOperations; ++i) {
      MP_RETURN_IF_ERROR(rank.region().AllReduce(ranks.of(rank)));
      MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    }
    return absl::OkStatus();
  }));
  const double worked = CpuSeconds();
  sync::Atomic<uint32_t> word{0};
  sync::Clock::Steady().Wait(word, 0, absl::Milliseconds(20));
  const double rested = CpuSeconds();
  sync::Clock::Steady().Wait(word, 0, absl::Seconds(1));
  const double later = CpuSeconds();
  // Each of its 2 + 4 threads may look for work for 100 us first.
  EXPECT_LT(rested - worked, 6 * 200e-6);
  EXPECT_LT(later - rested, 200e-6);
}

}  // namespace
}  // namespace mp::test
