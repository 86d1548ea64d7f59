// Shows that a rank's thread which waits on the core of another rank's goes to another core, and
// may go anywhere afterwards.  Counted at the call by which a thread is bound: it is this one's.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <vector>

#include "mp/base/cores.h"
#include "mp/base/sync.h"
#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/support/status_matchers.h"

namespace {
mp::sync::Atomic<uint64_t> counted{0};  // the thread that waits
mp::sync::Atomic<int> bound_to_one{0};  // how often it was
}  // namespace

extern "C" int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t* set) noexcept {
  static const auto real =
      reinterpret_cast<decltype(&sched_setaffinity)>(dlsym(RTLD_NEXT, "sched_setaffinity"));
  if (CPU_COUNT(set) == 1 && mp::sync::ThisThread() == counted.load()) bound_to_one.fetch_add(1);
  return real(thread, size, set);
}

namespace mp::test {
namespace {

constexpr int kTries = 300;  // the system may move a thread too

// How often rank 0 was bound while it waited for rank 1, which had posted last on `other`, in up to
// kTries operations; rank 0 begins each on the first core.
int Moves(uint32_t other) {
  const auto backend = host::NewBackend({.devices = 2}).value();
  const auto world = World::Create(backend).value();
  std::vector<std::vector<float>> values(2, std::vector<float>(5, 1));
  const uint32_t first = AllowedCores()[0];
  sync::Atomic<int> begun{0};
  int moves = 0;
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    const TensorView x(values[static_cast<size_t>(rank.id())].data(), DType::kF32, {5});
    const auto reduce = [&] {
      MP_RETURN_IF_ERROR(rank.region().AllReduce(x, {.op = ReduceOp::kMax}));
      return rank.stream().Synchronize();
    };
    for (int i = 0; i < kTries; ++i) {
      MoveToCore(rank.id() == 0 ? first : other);
      MP_RETURN_IF_ERROR(reduce());
      if (rank.id() == 0) {
        MoveToCore(first);
        counted = sync::ThisThread();
        const int before = bound_to_one.load();
        begun = i + 1;
        MP_RETURN_IF_ERROR(reduce());
        moves += bound_to_one.load() - before;
      } else {
        sync::Atomic<uint32_t> word{0};
        while (begun.load() <= i) sync::Clock::Steady().Wait(word, 0, absl::Microseconds(100));
        sync::Clock::Steady().Wait(word, 0, absl::Milliseconds(1));
        MP_RETURN_IF_ERROR(reduce());
      }
    }
    EXPECT_EQ(static_cast<int>(AllowedCores().size()), sync::CoreCount());
    return absl::OkStatus();
  }));
  EXPECT_EQ(values, std::vector(2, std::vector<float>(5, 1)));
  return moves;
}

TEST(Placement, WhoWaitsLeavesTheCoreOfAnotherRank) {
  const int moves = Moves(AllowedCores()[0]);
  if (sync::CoreCount() > 1) {
    EXPECT_GT(moves, 0);
  } else {
    EXPECT_EQ(moves, 0) << "there is no other core";
  }
}

}  // namespace
}  // namespace mp::test
