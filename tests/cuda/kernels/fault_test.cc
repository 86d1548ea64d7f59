// Proves that the fake's launchers forgive no more than a GPU does: memory that a kernel cannot
// reach breaks the machine for good, a stream of another device is refused, a first launch while a
// collective is under way is found.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mp/cuda/kernels/copy.h"
#include "mp/cuda/kernels/fold.h"
#include "tests/fake/machine.h"

namespace mp::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kBytes = 256;
constexpr int64_t kCount = kBytes / sizeof(float);

// Two devices with a stream and memory each, kernels loaded; device 0 has no access to device 1.
class FaultTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  FaultTest() : machine_({.devices = 2, .seed = GetParam()}) {
    for (int device = 1; device >= 0; --device) {
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
      EXPECT_EQ(LoadFolds(), cudaSuccess);
      EXPECT_EQ(cudaStreamCreateWithFlags(&streams_[device], cudaStreamNonBlocking), cudaSuccess);
      EXPECT_EQ(cudaMalloc(&data_[device], kBytes), cudaSuccess);
    }
  }

  // Copies source to target, by a kernel of device 0.
  cudaError_t Launch(const void* source, void* target, int64_t end = kCount) {
    Fold fold = {.input_count = 1, .output_count = 1, .end = end};
    fold.inputs[0] = source;
    fold.outputs[0] = target;
    return LaunchFold(fold, streams_[0]);
  }

  void ExpectFault(const std::string& finding) {
    EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorIllegalAddress);
    EXPECT_THAT(machine_.findings(), ElementsAre(HasSubstr(finding)));
    // For good, on each device.
    void* more = nullptr;
    EXPECT_EQ(cudaMalloc(&more, 4), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaStreamSynchronize(streams_[1]), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  }

  void ExpectNothing() {
    for (int device = 0; device < 2; ++device) {
      EXPECT_EQ(cudaStreamSynchronize(streams_[device]), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(streams_[device]), cudaSuccess);
      EXPECT_EQ(cudaFree(data_[device]), cudaSuccess);
    }
    EXPECT_EQ(machine_.Verdict(), "");
  }

  fake::Machine machine_;
  cudaStream_t streams_[2] = {};
  void* data_[2] = {};
};

INSTANTIATE_TEST_SUITE_P(Seeds, FaultTest, ::testing::Range(uint64_t{1}, uint64_t{5}));

TEST_P(FaultTest, HostMemory) {
  std::vector<float> host(kCount);
  EXPECT_EQ(Launch(data_[0], host.data()), cudaSuccess) << "the launch does not look";
  ExpectFault("output 0 of a fold, 256 bytes: not device memory");
}

TEST_P(FaultTest, BeyondTheEnd) {
  EXPECT_EQ(Launch(data_[0], data_[0], kCount + 1), cudaSuccess);
  ExpectFault("input 0 of a fold, 260 bytes: beyond its allocation");
}

TEST_P(FaultTest, FreedBeforeItRuns) {
  void* freed = nullptr;
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&freed, kBytes), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_EQ(Launch(freed, data_[0]), cudaSuccess);
  ExpectFault("input 0 of a fold, 256 bytes: not device memory");
}

TEST_P(FaultTest, APeerWithoutAccess) {
  EXPECT_EQ(Launch(data_[1], data_[0]), cudaSuccess);
  ExpectFault("on device 1, which device 0 has no access to");
}

TEST_P(FaultTest, AccessIsOneWay) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(Launch(data_[0], data_[1]), cudaSuccess);
  ExpectFault("output 0 of a fold, 256 bytes: on device 1, which device 0 has no access to");
}

TEST_P(FaultTest, APeerWithAccess) {
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(Launch(data_[1], data_[0]), cudaSuccess);
  ExpectNothing();
}

TEST_P(FaultTest, ACopyBeyondTheEnd) {
  EXPECT_EQ(LoadCopies(), cudaSuccess);
  StridedCopy copy;
  copy.from = {static_cast<const std::byte*>(data_[0]), 40, 0};
  copy.to = {static_cast<std::byte*>(data_[0]) + 128, 40, 0};
  copy.width = 8;
  copy.height = 4;  // the last row ends at 128 + 3 * 40 + 8 = 256
  EXPECT_EQ(LaunchCopies(&copy, 1, streams_[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  copy.to.data += 8;
  EXPECT_EQ(LaunchCopies(&copy, 1, streams_[0]), cudaSuccess);
  ExpectFault("target of a copy, 128 bytes: beyond its allocation");
}

TEST_P(FaultTest, TheStreamsDeviceIsTheCurrentOne) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(Launch(data_[0], data_[0]), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_THAT(machine_.findings(), ElementsAre(HasSubstr("while device 1 is the current one")));
}

TEST_P(FaultTest, ALaunchFailsWhereTheTestWantsIt) {
  machine_.FailCall("cudaLaunchKernel", 2, cudaErrorMemoryAllocation);
  EXPECT_EQ(Launch(data_[0], data_[0]), cudaSuccess);
  EXPECT_EQ(Launch(data_[0], data_[0]), cudaErrorMemoryAllocation);
  EXPECT_EQ(Launch(data_[0], data_[0]), cudaSuccess);
  machine_.FailCall("cudaFuncGetAttributes", 3, cudaErrorMemoryAllocation);
  EXPECT_EQ(LoadFolds(), cudaErrorMemoryAllocation);
  ExpectNothing();
}

// The copies are not loaded: their first launch could wait for the collective.
TEST_P(FaultTest, AFirstLaunchBesideACollective) {
  ncclComm_t comms[2];
  const int devices[] = {0, 1};
  ASSERT_EQ(ncclCommInitAll(comms, 2, devices), ncclSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  machine_.StallCollectives(true);
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(
        ncclAllReduce(data_[r], data_[r], kCount, ncclFloat32, ncclSum, comms[r], streams_[r]),
        ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Launch(data_[0], data_[0]), cudaSuccess);
  EXPECT_THAT(machine_.findings(), ElementsAre()) << "loaded";
  StridedCopy copy;
  copy.from.data = static_cast<const std::byte*>(data_[0]);
  copy.to.data = static_cast<std::byte*>(data_[0]) + 8;
  copy.width = 8;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(LaunchCopies(&copy, 1, streams_[0]), cudaSuccess);
  EXPECT_THAT(machine_.findings(), ElementsAre(HasSubstr("loads a kernel onto device 0 while")));
  machine_.StallCollectives(false);
  for (cudaStream_t stream : streams_) EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
}  // namespace mp::cuda
