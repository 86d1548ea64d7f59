// An operation of the CUDA backend allocates nothing, by any route and through either door: counted
// by a malloc, on the thread that calls, without what the fakes of CUDA and NCCL allocate
// themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "mp/base/check.h"
#include "mp/cuda/backend.h"
#include "mp/world.h"
#include "tests/fake/inside.h"
#include "tests/fake/machine.h"
#include "tests/support/allocations.h"

namespace mp::cuda {
namespace {

constexpr int kRanks = 4, kOperations = 20, kFirst = 600;

struct Case {
  const char* name;
  Options options;
};

class Waste : public ::testing::TestWithParam<Case> {
 protected:
  Waste() {
    test::ExcuseAllocations(&fake::Inside::Now);
    world_ = World::Create(NewBackend(GetParam().options).value()).value();
    for (int rank = 0; rank < kRanks; ++rank) {
      shards_.push_back(world_->device(rank).Allocate(DType::kF32, {2, 3}).value());
      shard_views_.push_back(shards_.back().view());
    }
  }
  void TearDown() override {
    shards_.clear();
    world_.reset();
    EXPECT_EQ(machine_.Verdict(), "");
  }

  // The allocations of all but the first calls, which make room.  Waits are not part of it: who
  // waits for long looks for a deadlock.
  template <typename Post>
  int64_t Of(const Post& post) {
    int64_t made = 0;
    for (int i = 0; i < kFirst + kOperations; ++i) {
      const int64_t before = test::AllocationsOfThread();
      MP_CHECK(post().ok());
      if (i >= kFirst) made += test::AllocationsOfThread() - before;
      MP_CHECK(world_->Synchronize().ok());
    }
    return made;
  }

  fake::Machine machine_{{.devices = kRanks, .seed = 2}};
  std::unique_ptr<World> world_;
  std::vector<Buffer> shards_;
  std::vector<TensorView> shard_views_;
};

// But for the marks of a stream, whose list takes a block of memory for every 21 operations.
TEST_P(Waste, OfAnAllReduceIsAListOfMarks) {
  EXPECT_LE(Of([&] { return world_->region().AllReduce(shard_views_); }), kRanks);
}

INSTANTIATE_TEST_SUITE_P(Routes, Waste,
                         ::testing::Values(Case{"Nccl", {.transport = Transport::kNccl}},
                                           Case{"Direct", {.transport = Transport::kDirect}},
                                           Case{"OneGpu", {.devices = {1, 1, 1, 1}}}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace mp::cuda
