// Proves the grid that runs kernels on the host: every thread of every block runs once, whatever
// the seed; a barrier holds until the whole block has come, also again and again; shared memory is
// the block's own; blocks mix; and what a GPU would not forgive ends the program.
#include "mp/cuda/kernels/grid.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fake/kernels/interleaved.h"

namespace mp::cuda {
namespace {

using fake::HostGrid;
using fake::Interleaved;

struct Count {
  int* counts;

  template <class Grid>
  MP_DEVICE_CODE void operator()(Grid& grid) const {
    int* mine = counts + FirstIndex(grid);
    grid.Store(mine, grid.Load(mine) + 1);
  }
};

TEST(Grid, EveryThreadRunsOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<int> counts(7 * 33, 0);
    Interleaved{seed}(Count{counts.data()}, 7, 33);
    EXPECT_EQ(counts, std::vector<int>(7 * 33, 1));
  }
}

// Each thread hands its number to the next one, round and round.
struct PassOn {
  int* results;
  int rounds;

  template <class Grid>
  MP_DEVICE_CODE void operator()(Grid& grid) const {
    struct Slots {
      int value[64];
    };
    Slots& slots = grid.template Shared<Slots>();
    int carried = static_cast<int>(FirstIndex(grid));
    for (int round = 0; round < rounds; ++round) {
      slots.value[(grid.thread() + 1) % grid.threads()] = carried;
      grid.Barrier();
      carried = slots.value[grid.thread()];
      grid.Barrier();
    }
    grid.Store(results + FirstIndex(grid), carried);
  }
};

TEST(Grid, ABarrierHoldsTheWholeBlock) {
  constexpr int kThreads = 64;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<int> results(5 * kThreads, -1);
    Interleaved{seed}(PassOn{results.data(), 3}, 5, kThreads);
    for (int block = 0; block < 5; ++block) {
      for (int thread = 0; thread < kThreads; ++thread) {
        EXPECT_EQ(results[static_cast<size_t>(block * kThreads + thread)],
                  block * kThreads + (thread + kThreads - 3) % kThreads);
      }
    }
  }
}

// Which (block, thread) made the i-th store.
std::vector<int> OrderOfStores(uint64_t seed) {
  std::vector<int> order;
  fake::RunInterleaved(4, 16, seed, [&order](HostGrid& grid) {
    int unused = 0;
    for (int i = 0; i < 8; ++i) {
      grid.Store(&unused, i);
      order.push_back(grid.block() * 16 + grid.thread());
    }
  });
  return order;
}

TEST(Grid, BlocksAndThreadsMixAndTheSeedRepeatsIt) {
  std::set<std::vector<int>> orders;
  int mixed = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<int> order = OrderOfStores(seed);
    EXPECT_EQ(order, OrderOfStores(seed));
    orders.insert(order);
    // A thread that was interrupted, and one block within another.
    int changes = 0;
    int block_changes = 0;
    for (size_t i = 1; i < order.size(); ++i) {
      changes += order[i] != order[i - 1];
      block_changes += order[i] / 16 != order[i - 1] / 16;
    }
    mixed += changes > 63 && block_changes > 3;
  }
  EXPECT_EQ(orders.size(), 10u);
  EXPECT_GE(mixed, 8);
}

TEST(GridDeathTest, ABarrierThatNotAllReach) {
  const auto run = [] {
    fake::RunInterleaved(1, 8, 1, [](HostGrid& grid) {
      if (grid.thread() < 5) grid.Barrier();
    });
  };
  EXPECT_DEATH(run(), "kernel, block 0: a barrier that 3 of 8 threads never reach");
}

TEST(GridDeathTest, AMisalignedVector) {
  alignas(16) static uint8_t memory[32];
  const auto run = [] {
    fake::RunInterleaved(1, 1, 1, [](HostGrid& grid) {
      grid.Load(reinterpret_cast<const Pack<uint32_t, 4>*>(memory + 4));
    });
  };
  EXPECT_DEATH(run(), "reaches for 16 bytes at an address that is no multiple of 16");
}

}  // namespace
}  // namespace mp::cuda
