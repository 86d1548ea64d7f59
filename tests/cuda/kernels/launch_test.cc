// Proves the launchers over the fake's streams: kernels run in their stream's order and not when
// they are launched, see what an event made them wait for, give the host's bits; what a launcher
// refuses is not enqueued.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "mp/cuda/kernels/copy.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/host/kernels/fold.h"
#include "tests/fake/machine.h"

namespace mp::cuda {
namespace {

constexpr int64_t kCount = 5000;
constexpr size_t kBytes = kCount * sizeof(float);

// Two devices, a stream and a tensor of f32 on each.
class LaunchTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  LaunchTest() : machine_({.devices = 2, .seed = GetParam()}) {
    for (int device = 0; device < 2; ++device) {
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
      EXPECT_EQ(cudaStreamCreateWithFlags(&streams_[device], cudaStreamNonBlocking), cudaSuccess);
      EXPECT_EQ(cudaEventCreateWithFlags(&events_[device], cudaEventDisableTiming), cudaSuccess);
      void* data = nullptr;
      EXPECT_EQ(cudaMalloc(&data, kBytes), cudaSuccess);
      data_[device] = static_cast<float*>(data);
      for (int64_t i = 0; i < kCount; ++i) {
        values_[device].push_back(static_cast<float>(i + 1) / static_cast<float>(3 + device));
      }
      EXPECT_EQ(cudaMemcpyAsync(data_[device], values_[device].data(), kBytes,
                                cudaMemcpyHostToDevice, streams_[device]),
                cudaSuccess);
    }
    for (int device = 0; device < 2; ++device) {
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
      EXPECT_EQ(cudaDeviceEnablePeerAccess(1 - device, 0), cudaSuccess);
    }
    EXPECT_EQ(LoadFolds(), cudaSuccess);
    EXPECT_EQ(LoadCopies(), cudaSuccess);
  }

  ~LaunchTest() override {
    for (int device = 0; device < 2; ++device) {
      EXPECT_EQ(cudaStreamSynchronize(streams_[device]), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(streams_[device]), cudaSuccess);
      EXPECT_EQ(cudaEventDestroy(events_[device]), cudaSuccess);
      EXPECT_EQ(cudaFree(data_[device]), cudaSuccess);
    }
    EXPECT_EQ(machine_.Verdict(), "");
  }

  void Arrow(int from, int to) {
    EXPECT_EQ(cudaSetDevice(from), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(events_[from], streams_[from]), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(to), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(streams_[to], events_[from], 0), cudaSuccess);
  }

  std::vector<float> Read(int device) {
    std::vector<float> values(kCount);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data_[device], kBytes, cudaMemcpyDeviceToHost,
                              streams_[device]),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(streams_[device]), cudaSuccess);
    return values;
  }

  fake::Machine machine_;
  cudaStream_t streams_[2] = {};
  cudaEvent_t events_[2] = {};
  float* data_[2] = {};
  std::vector<float> values_[2];
};

INSTANTIATE_TEST_SUITE_P(Seeds, LaunchTest, ::testing::Range(uint64_t{1}, uint64_t{9}));

// An all-reduce in place by two shots: each device folds its half for both.
TEST_P(LaunchTest, TwoShotsInPlace) {
  Arrow(0, 1);
  Arrow(1, 0);
  for (int device = 0; device < 2; ++device) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    Fold fold = {.op = ReduceOp::kAvg, .input_count = 2, .output_count = 2, .scale = 0.1};
    for (int r = 0; r < 2; ++r) fold.inputs[r] = fold.outputs[r] = data_[r];
    fold.begin = device * (kCount / 2);
    fold.end = fold.begin + kCount / 2;
    EXPECT_EQ(LaunchFold(fold, streams_[device]), cudaSuccess);
  }
  Arrow(0, 1);
  Arrow(1, 0);

  const void* inputs[] = {values_[0].data(), values_[1].data()};
  std::vector<float> expected(kCount);
  void* output = expected.data();
  host::FoldFor(DType::kF32, ReduceOp::kAvg)(inputs, 2, &output, 1, 0, kCount, {.scale = 0.1});
  EXPECT_EQ(Read(0), expected);
  EXPECT_EQ(Read(1), expected);
}

TEST_P(LaunchTest, ScaleRunsBehindWhatIsQueued) {
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  constexpr double kFactor = 1.0 / 7;
  std::vector<float> expected = values_[0];
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(LaunchScale(DType::kF32, data_[0], data_[0], kCount, kFactor, streams_[0]),
              cudaSuccess);
    for (float& value : expected) value *= static_cast<float>(kFactor);
  }
  EXPECT_EQ(Read(0), expected);
}

TEST_P(LaunchTest, CopiesRunBehindWhatIsQueued) {
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(LaunchScale(DType::kF32, data_[0], data_[0], kCount, 2, streams_[0]), cudaSuccess);
  Arrow(1, 0);
  // Columns [10, 20) of 50 become columns [30, 40) of the other device.
  StridedCopy copy;
  copy.from = {reinterpret_cast<const std::byte*>(data_[0] + 10), 200, 0};
  copy.to = {reinterpret_cast<std::byte*>(data_[1] + 30), 200, 0};
  copy.width = 40;
  copy.height = kCount / 50;
  EXPECT_EQ(LaunchCopies(&copy, 1, streams_[0]), cudaSuccess);
  Arrow(0, 1);
  std::vector<float> expected = values_[1];
  for (size_t row = 0; row < kCount / 50; ++row) {
    for (size_t i = 0; i < 10; ++i) {
      expected[row * 50 + 30 + i] = 2 * values_[0][row * 50 + 10 + i];
    }
  }
  EXPECT_EQ(Read(1), expected);
}

TEST_P(LaunchTest, NothingIsEnqueuedWhereItIsRefused) {
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  const int64_t before = machine_.calls("cudaLaunchKernel");
  EXPECT_EQ(LaunchScale(DType::kI32, data_[0], data_[0], kCount, 2, streams_[0]),
            cudaErrorInvalidValue);
  Fold fold = {.op = ReduceOp::kSum, .input_count = 0, .output_count = 1, .end = 1};
  EXPECT_EQ(LaunchFold(fold, streams_[0]), cudaErrorInvalidValue);
  StridedCopy copy;
  copy.width = -1;
  EXPECT_EQ(LaunchCopies(&copy, 1, streams_[0]), cudaErrorInvalidValue);
  EXPECT_EQ(LaunchCopies(nullptr, 0, streams_[0]), cudaSuccess);
  EXPECT_EQ(machine_.calls("cudaLaunchKernel"), before);
  EXPECT_EQ(LaunchScale(DType::kF32, data_[0], data_[0], 1, 2, nullptr),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace mp::cuda
