// Streams, memory and calls of an application that speaks CUDA itself, beside mp's.
#include "mp/cuda/interop.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "mp/base/sync.h"
#include "mp/cuda/backend.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::KindIs;
using ::testing::HasSubstr;

constexpr int kRanks = 2;
constexpr size_t kCount = 3;

class Interop : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    backend_ = NewBackend({.devices = {1, 0}}).value();
    world_ = World::Create(backend_, {.rank_threads = false}).value();
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(cudaSetDevice(1 - rank), cudaSuccess);
      void* memory = nullptr;
      EXPECT_EQ(cudaMalloc(&memory, kCount * sizeof(float)), cudaSuccess);
      memory_.push_back(static_cast<float*>(memory));
      views_.emplace_back(memory, DType::kF32, Shape{kCount});
      streams_.emplace_back();
      EXPECT_EQ(cudaStreamCreateWithFlags(&streams_.back(), cudaStreamNonBlocking), cudaSuccess);
    }
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  void TearDown() override {
    world_.reset();
    backend_.reset();
    for (float* memory : memory_) EXPECT_EQ(cudaFree(memory), cudaSuccess);
    for (cudaStream_t stream : streams_) {
      if (stream == nullptr) continue;
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    EXPECT_EQ(machine_.Verdict(), verdict_);
  }

  static void Write(float* to, const std::vector<float>& values, cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(float),
                              cudaMemcpyHostToDevice, stream),
              cudaSuccess);
  }
  std::vector<float> Read(int rank) const {
    std::vector<float> values(kCount);
    EXPECT_EQ(cudaMemcpy(values.data(), memory_[static_cast<size_t>(rank)], kCount * sizeof(float),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

  static bool keeps_not_ready() { return GetParam() == 1; }

  std::string verdict_;
  fake::Machine machine_{
      {.devices = kRanks, .seed = GetParam(), .keeps_not_ready = keeps_not_ready()}};
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<World> world_;
  std::vector<float*> memory_;
  std::vector<TensorView> views_;
  std::vector<cudaStream_t> streams_;
};

// The application's streams write what is reduced, and read the result where nobody waits for it.
TEST_P(Interop, StreamsOfTheApplicationAreOrderedBeforeAndAfter) {
  std::vector<std::unique_ptr<mp::Stream>> wrapped;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    wrapped.push_back(WrapStream(world_->device(static_cast<int>(rank)), streams_[rank]).value());
    EXPECT_EQ(wrapped[rank]->native().handle, streams_[rank]);
    const auto scale = static_cast<float>(rank + 1);
    Write(memory_[rank], {scale, 10 * scale, 100 * scale}, streams_[rank]);
    EXPECT_OK(world_->stream(static_cast<int>(rank)).Wait(wrapped[rank]->Record()));
  }
  const std::vector<Work> works = world_->region().StartAllReduce(views_).value();
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_OK(works[rank].Wait(*wrapped[rank]));
    EXPECT_OK(wrapped[rank]->Scale(views_[rank], views_[rank], 0.5));
    wrapped[rank].reset();
    EXPECT_EQ(cudaStreamSynchronize(streams_[rank]), cudaSuccess);
    EXPECT_EQ(Read(static_cast<int>(rank)), (std::vector<float>{1.5, 15, 150}));
  }
}

TEST_P(Interop, CallsOfTheApplicationStandInTheRanksStream) {
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto native = static_cast<cudaStream_t>(world_->stream(rank).native().handle);
      Write(memory_[static_cast<size_t>(rank)], {1, 2, 3}, native);
    }
    EXPECT_OK(world_->region().AllReduce(views_));
    EXPECT_OK(world_->region().AllReduce(views_));
    EXPECT_OK(world_->Synchronize());
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(Read(rank), (std::vector<float>{4, 8, 12}));
    }
  }
}

// STR-4
TEST_P(Interop, AWrapperLeavesTheStreamAlone) {
  auto wrapped = WrapStream(world_->device(0), streams_[0]).value();
  Write(memory_[0], {1, 2, 3}, streams_[0]);
  EXPECT_OK(wrapped->Record().Synchronize());
  wrapped->Record();
  wrapped.reset();
  EXPECT_EQ(cudaStreamDestroy(streams_[0]), cudaSuccess);
  streams_[0] = nullptr;
}

TEST_P(Interop, AStreamOfAnotherDeviceIsRefused) {
  EXPECT_THAT(WrapStream(world_->device(0), streams_[1]).status(),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("not of cuda 1")));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  verdict_ = "cudaEventRecord: stream of another device";  // that it is asked for is meant
}

TEST_P(Interop, NothingIsLaunchedWhileTheLaunchesAreGuarded) {
  EXPECT_OK(world_->region().AllReduce(views_));
  EXPECT_OK(world_->Synchronize());
  const int64_t before = machine_.calls("cudaLaunchKernel");
  auto guard = std::make_unique<LaunchGuard>(*backend_);
  absl::Status posted;
  sync::Thread caller =
      sync::Thread::Start("caller", [&] { posted = world_->region().AllReduce(views_); }).value();
  void* more = nullptr;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(cudaMalloc(&more, 64), cudaSuccess);
    EXPECT_EQ(cudaFree(more), cudaSuccess);
    EXPECT_EQ(machine_.calls("cudaLaunchKernel"), before);
  }
  guard.reset();
  caller.Join();
  EXPECT_OK(posted);
  EXPECT_OK(world_->Synchronize());
  EXPECT_EQ(machine_.calls("cudaLaunchKernel"), before + 1);
}

// DEV-5: what the application's own call has left is neither blamed on mp's calls nor eaten by
// them, but where CUDA itself overwrites it with "not ready".
TEST_P(Interop, AnErrorThatWasThereBeforeIsNobodyElses) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  machine_.DelayCall("cudaLaunchKernel", 1);
  EXPECT_OK(world_->region().AllReduce(views_));
  EXPECT_TRUE(absl::IsDeadlineExceeded(world_->Synchronize(absl::Milliseconds(1))));
  machine_.Release();
  EXPECT_OK(world_->Synchronize());
  EXPECT_OK(world_->region().AllReduce(views_));
  EXPECT_OK(world_->Synchronize());
  EXPECT_OK(world_->device(1).Allocate(DType::kF32, {3}));
  const cudaError_t kept = cudaGetLastError();
  EXPECT_EQ(kept, keeps_not_ready() ? cudaSuccess : cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Interop, ::testing::Values(1, 2));

}  // namespace
}  // namespace mp::cuda
