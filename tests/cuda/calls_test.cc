// The CUDA and NCCL calls that one operation makes for all of its four ranks, to the last one: what
// it costs the host, and that nothing is called for what is not needed.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mp/cuda/backend.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

constexpr int kRanks = 4;

class Calls : public ::testing::Test {
 protected:
  void MakeWorld(const Options& options) {
    world_ = World::Create(NewBackend(options).value(), {.rank_threads = false}).value();
    for (int rank = 0; rank < kRanks; ++rank) {
      shards_.push_back(world_->device(rank).Allocate(DType::kF32, {2, 3}).value());
      results_.push_back(world_->device(rank).Allocate(DType::kF32, {2, 3 * kRanks}).value());
    }
  }
  void Forget() {
    EXPECT_OK(world_->Synchronize());
    shards_.clear();
    results_.clear();
    world_.reset();
  }
  void TearDown() override {
    if (world_ != nullptr) Forget();
    EXPECT_EQ(machine_.Verdict(), "");
  }

  static std::vector<TensorView> Views(const std::vector<Buffer>& buffers) {
    std::vector<TensorView> views;
    for (const Buffer& buffer : buffers) views.push_back(buffer.view());
    return views;
  }

  // The calls of `post`, the second time: what is done once has been done then.
  template <typename Post>
  std::map<std::string, int64_t> Of(const Post& post) {
    EXPECT_OK(post());
    EXPECT_OK(world_->Synchronize());
    const std::map<std::string, int64_t> before = machine_.calls();
    EXPECT_OK(post());
    std::map<std::string, int64_t> made;
    for (const auto& [function, count] : machine_.calls()) {
      const auto found = before.find(function);
      const int64_t more = count - (found == before.end() ? 0 : found->second);
      if (more != 0) made[function] = more;
    }
    return made;
  }

  fake::Machine machine_{{.devices = kRanks, .seed = 2}};
  std::unique_ptr<World> world_;
  std::vector<Buffer> shards_, results_;
};

using Table = std::map<std::string, int64_t>;

const Options kNccl = {.transport = Transport::kNccl};
const Options kDirect = {.transport = Transport::kDirect};
const Options kOneGpu = {.devices = {1, 1, 1, 1}};

// No event while no other stream is in the way.
TEST_F(Calls, OfAnAllReduceOverNccl) {
  MakeWorld(kNccl);
  EXPECT_EQ(Of([&] { return world_->region().AllReduce(Views(shards_)); }),
            (Table{{"cudaGetDevice", 2},
                   {"cudaStreamIsCapturing", kRanks},
                   {"ncclAllReduce", kRanks},
                   {"ncclGroupEnd", 1},
                   {"ncclGroupStart", 1}}));
}

// With another World on its GPUs, each leaves a mark for the other.
TEST_F(Calls, OfAnAllReduceBesideAnotherWorld) {
  const auto backend = NewBackend(kNccl).value();
  const auto other = World::Create(backend, {.rank_threads = false}).value();
  world_ = World::Create(backend, {.rank_threads = false}).value();
  for (int rank = 0; rank < kRanks; ++rank) {
    shards_.push_back(world_->device(rank).Allocate(DType::kF32, {2, 3}).value());
  }
  EXPECT_EQ(Of([&] { return world_->region().AllReduce(Views(shards_)); }),
            (Table{{"cudaEventRecord", kRanks},
                   {"cudaGetDevice", 2},
                   {"cudaStreamIsCapturing", kRanks},
                   {"ncclAllReduce", kRanks},
                   {"ncclGroupEnd", 1},
                   {"ncclGroupStart", 1}}));
  Forget();
}

// All streams meet at one, where the only kernel is, and leave it again.  The caller's device is
// given back in the end where it was another one.
TEST_F(Calls, OfASmallAllReduceWithoutNccl) {
  for (const Options& options : {kDirect, kOneGpu}) {
    MakeWorld(options);
    EXPECT_EQ(Of([&] { return world_->region().AllReduce(Views(shards_)); }),
              (Table{{"cudaEventRecord", kRanks},
                     {"cudaGetDevice", 2},
                     {"cudaLaunchKernel", 1},
                     {"cudaSetDevice", options.devices.empty() ? 1 : 1 + 1},
                     {"cudaStreamIsCapturing", kRanks},
                     {"cudaStreamWaitEvent", 2 * (kRanks - 1)}}));
    Forget();
  }
}

// The application's own memory is asked about, that of Buffers is known.
TEST_F(Calls, OfMemoryOfTheApplication) {
  MakeWorld(kNccl);
  std::vector<TensorView> views;
  for (int rank = 0; rank < kRanks; ++rank) {
    void* memory = nullptr;
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&memory, 24), cudaSuccess);
    views.emplace_back(memory, DType::kF32, Shape{6});
  }
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(Of([&] { return world_->region().AllReduce(views); }),
            (Table{{"cuPointerGetAttribute", kRanks},
                   {"cudaGetDevice", 2},
                   {"cudaPointerGetAttributes", kRanks},
                   {"cudaStreamIsCapturing", kRanks},
                   {"ncclAllReduce", kRanks},
                   {"ncclGroupEnd", 1},
                   {"ncclGroupStart", 1}}));
  EXPECT_OK(world_->Synchronize());
  for (const TensorView& view : views) EXPECT_EQ(cudaFree(view.data()), cudaSuccess);
}

// All streams meet by way of one, and the root waits for the three that push to it.
TEST_F(Calls, OfAGather) {
  MakeWorld(kDirect);
  EXPECT_EQ(Of([&] { return world_->region().Gather(Views(shards_), results_[1].view(), 1); }),
            (Table{{"cudaEventRecord", 2 * kRanks - 1},
                   {"cudaGetDevice", 2},
                   {"cudaLaunchKernel", kRanks},
                   {"cudaSetDevice", kRanks + 1},
                   {"cudaStreamIsCapturing", kRanks},
                   {"cudaStreamWaitEvent", 3 * (kRanks - 1)}}));
}

// All streams meet before and after.
TEST_F(Calls, OfAnAllGather) {
  MakeWorld(kDirect);
  EXPECT_EQ(Of([&] { return world_->region().AllGather(Views(shards_), Views(results_)); }),
            (Table{{"cudaEventRecord", 2 * kRanks},
                   {"cudaGetDevice", 2},
                   {"cudaLaunchKernel", kRanks},
                   {"cudaSetDevice", kRanks + 1},
                   {"cudaStreamIsCapturing", kRanks},
                   {"cudaStreamWaitEvent", 4 * (kRanks - 1)}}));
}

// On one GPU a single kernel copies everything.
TEST_F(Calls, OfAGatherOnOneGpu) {
  MakeWorld(kOneGpu);
  const Table meeting_at_one = {
      {"cudaEventRecord", kRanks},       {"cudaGetDevice", 2},
      {"cudaLaunchKernel", 1},           {"cudaSetDevice", 1 + 1},
      {"cudaStreamIsCapturing", kRanks}, {"cudaStreamWaitEvent", 2 * (kRanks - 1)}};
  EXPECT_EQ(Of([&] { return world_->region().Gather(Views(shards_), results_[1].view(), 1); }),
            meeting_at_one);
}

}  // namespace
}  // namespace mp::cuda
