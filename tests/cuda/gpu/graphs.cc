// A captured step on the machine's GPUs, launched again and again with other inputs: exact values.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "mp/base/status.h"
#include "mp/cuda/backend.h"
#include "mp/cuda/status.h"
#include "mp/world.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

constexpr int64_t kRows = 3;

void Write(const TensorView& to, const std::vector<float>& values) {
  ASSERT_EQ(cudaMemcpy(to.data(), values.data(), values.size() * sizeof(float), cudaMemcpyDefault),
            cudaSuccess);
}

std::vector<float> Read(const TensorView& from) {
  std::vector<float> values(static_cast<size_t>(from.shape().elements()));
  EXPECT_EQ(
      cudaMemcpy(values.data(), from.data(), values.size() * sizeof(float), cudaMemcpyDefault),
      cudaSuccess);
  return values;
}

// x_r doubled, summed over the ranks, and shards of r + 1 columns gathered to the last rank.
TEST(Graphs, RepeatAStepWithWhatTheInputsHoldThen) {
  int gpus = 0;
  ASSERT_EQ(cudaGetDeviceCount(&gpus), cudaSuccess);
  for (const int ranks : {2, 3, 8}) {
    Options options;
    for (int rank = 0; rank < ranks; ++rank) options.devices.push_back(rank % gpus);
    auto world = World::Create(NewBackend(options).value(), {.rank_threads = false}).value();
    const int64_t columns = ranks * (ranks + 1) / 2;
    std::vector<Buffer> xs, sums, shards;
    for (int rank = 0; rank < ranks; ++rank) {
      xs.push_back(world->device(rank).Allocate(DType::kF32, {5}).value());
      sums.push_back(world->device(rank).Allocate(DType::kF32, {5}).value());
      shards.push_back(world->device(rank).Allocate(DType::kF32, {kRows, rank + 1}).value());
    }
    Buffer full = world->device(ranks - 1).Allocate(DType::kF32, {kRows, columns}).value();
    const Graph graph =
        world->region()
            .Capture([&](RankRegion& region) -> absl::Status {
              const auto peer = static_cast<size_t>(region.peer());
              MP_RETURN_IF_ERROR(region.stream().Scale(xs[peer].view(), sums[peer].view(), 2));
              MP_RETURN_IF_ERROR(region.AllReduce(sums[peer].view()));
              return region.Gather(shards[peer].view(), full.view(), ranks - 1);
            })
            .value();
    for (int step = 0; step < 20; ++step) {
      Write(full.view(), std::vector<float>(static_cast<size_t>(kRows * columns), -1));
      for (int rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<size_t>(rank);
        std::vector<float> x, shard;
        for (int i = 0; i < 5; ++i) x.push_back(static_cast<float>(100 * step + 10 * rank + i));
        for (int64_t i = 0; i < kRows * (rank + 1); ++i) {
          shard.push_back(static_cast<float>(1000 * rank + i + step));
        }
        Write(xs[r].view(), x);
        Write(shards[r].view(), shard);
        Write(sums[r].view(), std::vector<float>(5, -1));
      }
      ASSERT_OK(graph.Launch());
      ASSERT_OK(world->Synchronize());
      std::vector<float> sum, joined;
      for (int i = 0; i < 5; ++i) {
        sum.push_back(
            static_cast<float>(2 * (ranks * (100 * step + i) + 10 * ranks * (ranks - 1) / 2)));
      }
      for (int64_t row = 0; row < kRows; ++row) {
        for (int rank = 0; rank < ranks; ++rank) {
          for (int64_t i = 0; i <= rank; ++i) {
            joined.push_back(static_cast<float>(1000 * rank + row * (rank + 1) + i + step));
          }
        }
      }
      for (const Buffer& it : sums) EXPECT_EQ(Read(it.view()), sum) << ranks << " " << step;
      EXPECT_EQ(Read(full.view()), joined) << ranks << " " << step;
    }
  }
}

}  // namespace
}  // namespace mp::cuda
