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

constexpr int kRanks = 4, kOperations = 30, kFirst = 100;

struct Case {
  const char* name;
  Options options;
  bool peers = true;
};

fake::Options MachineFor(const Case& tested) {
  fake::Options options{.devices = kRanks, .seed = 2};
  for (int device = 0; !tested.peers && device < kRanks; ++device) {
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != device) options.no_access.insert({device, peer});
    }
  }
  return options;
}

class Waste : public ::testing::TestWithParam<Case> {
 protected:
  Waste() {
    test::ExcuseAllocations(&fake::Inside::Now);
    world_ = World::Create(NewBackend(GetParam().options).value()).value();
    for (int rank = 0; rank < kRanks; ++rank) {
      shards_.push_back(world_->device(rank).Allocate(DType::kF32, {2, 3}).value());
      shard_views_.push_back(shards_.back().view());
      outputs_.push_back(world_->device(rank).Allocate(DType::kF32, {2, 3 * kRanks}).value());
      output_views_.push_back(outputs_.back().view());
    }
  }
  void TearDown() override {
    shards_.clear();
    outputs_.clear();
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

  fake::Machine machine_{MachineFor(GetParam())};
  std::unique_ptr<World> world_;
  std::vector<Buffer> shards_, outputs_;
  std::vector<TensorView> shard_views_, output_views_;
};

TEST_P(Waste, OfAnAllReduceIsNothing) {
  EXPECT_EQ(Of([&] { return world_->region().AllReduce(shard_views_); }), 0);
}

TEST_P(Waste, OfAGatherIsNothing) {
  EXPECT_EQ(Of([&] { return world_->region().Gather(shard_views_, output_views_[2], 2); }), 0);
}

TEST_P(Waste, OfAnAllGatherIsNothing) {
  EXPECT_EQ(Of([&] { return world_->region().AllGather(shard_views_, output_views_); }), 0);
}

INSTANTIATE_TEST_SUITE_P(Routes, Waste,
                         ::testing::Values(Case{"Nccl", {.transport = Transport::kNccl}},
                                           Case{
                                               "NcclAlone", {.transport = Transport::kNccl}, false},
                                           Case{"Direct", {.transport = Transport::kDirect}},
                                           Case{"OneGpu", {.devices = {1, 1, 1, 1}}}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace mp::cuda
