// Who reaches whose memory: links between devices, access that is enabled, and pools, which have
// their own.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "mp/cuda/kernels/fold.h"
#include "tests/fake/machine.h"
#include "tests/fake/testing.h"

namespace mp::fake {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

cudaMemPool_t NewPool(int device) {
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaMemPoolCreate(&pool, &props), cudaSuccess);
  return pool;
}

cudaError_t SetAccess(cudaMemPool_t pool, int device, cudaMemAccessFlags flags) {
  cudaMemAccessDesc desc{};
  desc.location = {cudaMemLocationTypeDevice, device};
  desc.flags = flags;
  return cudaMemPoolSetAccess(pool, &desc, 1);
}

cudaMemAccessFlags AccessOf(cudaMemPool_t pool, int device) {
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtRead;
  cudaMemLocation location{cudaMemLocationTypeDevice, device};
  EXPECT_EQ(cudaMemPoolGetAccess(&flags, pool, &location), cudaSuccess);
  return flags;
}

// Devices 0 and 1 reach each other, 0 and 2 do not.
class PeersTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  PeersTest() : machine_({.devices = 3, .seed = GetParam(), .no_access = {{0, 2}, {2, 0}}}) {
    for (int device = 2; device >= 0; --device) {
      streams_[device] = NewStream(device);
      data_[device] = NewFloats(device, 4);
    }
  }
  void ExpectNothing() {
    for (int device = 0; device < 3; ++device) {
      EXPECT_EQ(cudaStreamDestroy(streams_[device]), cudaSuccess);
      EXPECT_EQ(cudaFree(data_[device]), cudaSuccess);
    }
    EXPECT_EQ(machine_.Verdict(), "");
  }
  // Doubles memory by a kernel of device 0.
  cudaError_t Double(void* data) {
    return cuda::LaunchScale(DType::kF32, data, data, 4, 2, streams_[0]);
  }

  Machine machine_;
  cudaStream_t streams_[3] = {};
  float* data_[3] = {};
};

INSTANTIATE_TEST_SUITE_P(Seeds, PeersTest, ::testing::Range<uint64_t>(1, 5));

TEST_P(PeersTest, AccessIsEnabledWhereThereIsALink) {
  int can = -1;
  for (const auto& [device, peer, expected] :
       {std::tuple{0, 1, 1}, {1, 0, 1}, {1, 2, 1}, {0, 2, 0}, {2, 0, 0}, {1, 1, 0}}) {
    EXPECT_EQ(cudaDeviceCanAccessPeer(&can, device, peer), cudaSuccess);
    EXPECT_EQ(can, expected) << device << " " << peer;
  }
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(2, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(Double(data_[1]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
  ExpectNothing();
}

TEST_P(PeersTest, CopiesNeedNoAccess) {
  for (int peer : {1, 2}) {
    const float base = static_cast<float>(10 * peer);
    Write(data_[peer], {base + 1, base + 2, base + 3, base + 4}, streams_[peer]);
    EXPECT_EQ(cudaStreamSynchronize(streams_[peer]), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(data_[0], data_[peer], 16, cudaMemcpyDefault, streams_[0]),
              cudaSuccess);
    EXPECT_THAT(Read(data_[0], 4, streams_[0]),
                ElementsAre(base + 1, base + 2, base + 3, base + 4));
  }
  ExpectNothing();
}

TEST_P(PeersTest, KernelsFaultWithoutALink) {
  EXPECT_EQ(Double(data_[2]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorIllegalAddress);
  EXPECT_THAT(machine_.findings(),
              ElementsAre(HasSubstr("on device 2, which device 0 has no access to")));
}

TEST_P(PeersTest, PoolsGrantAccessOnTheirOwn) {
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  cudaMemPool_t pool = NewPool(1);
  EXPECT_EQ(AccessOf(pool, 0), cudaMemAccessFlagsProtNone) << "whatever is enabled";
  EXPECT_EQ(AccessOf(pool, 1), cudaMemAccessFlagsProtReadWrite);
  EXPECT_EQ(SetAccess(pool, 1, cudaMemAccessFlagsProtNone), cudaErrorInvalidValue);
  EXPECT_EQ(SetAccess(pool, 3, cudaMemAccessFlagsProtReadWrite), cudaErrorInvalidValue);
  EXPECT_EQ(SetAccess(pool, 0, cudaMemAccessFlagsProtReadWrite), cudaSuccess);
  EXPECT_EQ(AccessOf(pool, 0), cudaMemAccessFlagsProtReadWrite);
  void* data = nullptr;
  EXPECT_EQ(cudaMallocFromPoolAsync(&data, 16, pool, streams_[1]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  Write(static_cast<float*>(data), {1, 2, 3, 4}, streams_[1]);
  EXPECT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  EXPECT_EQ(Double(data), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(data_[0], data, 16, cudaMemcpyDefault, streams_[0]), cudaSuccess);
  EXPECT_THAT(Read(data_[0], 4, streams_[0]), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(SetAccess(pool, 0, cudaMemAccessFlagsProtNone), cudaSuccess);
  EXPECT_EQ(AccessOf(pool, 0), cudaMemAccessFlagsProtNone);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess) << "the memory outlives it";
  EXPECT_EQ(cudaFreeAsync(data, streams_[1]), cudaSuccess);
  ExpectNothing();
}

TEST_P(PeersTest, APoolIsOnlyGrantedWhereThereIsALink) {
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 2), cudaSuccess);
  EXPECT_EQ(SetAccess(pool, 0, cudaMemAccessFlagsProtReadWrite), cudaErrorInvalidValue);
  EXPECT_EQ(SetAccess(pool, 1, cudaMemAccessFlagsProtReadWrite), cudaSuccess);
  cudaMemPool_t again = nullptr;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&again, 2), cudaSuccess);
  EXPECT_EQ(pool, again);
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&again, 3), cudaErrorInvalidDevice);
  ExpectNothing();
}

// Both on device 0, which access to device 1 does not help.
TEST_P(PeersTest, PoolMemoryFaultsOnPeers) {
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  void* data = nullptr;
  EXPECT_EQ(cudaMallocAsync(&data, 16, streams_[1]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  if (GetParam() % 4 < 2) {
    EXPECT_EQ(Double(data), cudaSuccess);
  } else {
    EXPECT_EQ(cudaMemcpyAsync(data_[0], data, 16, cudaMemcpyDefault, streams_[0]), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorIllegalAddress);
  EXPECT_THAT(machine_.findings(),
              ElementsAre(HasSubstr("on device 1, which device 0 has no access to")));
}

TEST_P(PeersTest, MemoryOfAPoolFollowsItsStream) {
  void* data = nullptr;
  EXPECT_EQ(cudaMallocAsync(&data, 16, streams_[0]), cudaSuccess);
  EXPECT_EQ(machine_.live().allocations, 4);
  EXPECT_EQ(cudaMemcpyAsync(data, data_[0], 16, cudaMemcpyDefault, streams_[0]), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(data, streams_[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_EQ(machine_.live().allocations, 3);
  EXPECT_EQ(cudaMallocAsync(&data, 16, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaMallocAsync(&data, 0, streams_[0]), cudaSuccess);
  EXPECT_EQ(data, nullptr);
  EXPECT_EQ(cudaFreeAsync(nullptr, streams_[0]), cudaSuccess);
  ExpectNothing();
}

TEST_P(PeersTest, MemoryBeforeItsAllocationIsFound) {
  void* data = nullptr;
  machine_.DelayCall("cudaMallocAsync", 1);
  EXPECT_EQ(cudaMallocAsync(&data, 16, streams_[0]), cudaSuccess);
  cudaStream_t other = NewStream(0);
  EXPECT_EQ(cuda::LaunchScale(DType::kF32, data, data, 4, 2, other), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaErrorIllegalAddress);
  EXPECT_THAT(machine_.findings(), ElementsAre(HasSubstr("not yet allocated in its stream")));
  EXPECT_EQ(cudaFreeAsync(data_[0], streams_[0]), cudaErrorIllegalAddress);
}

TEST_P(PeersTest, OnlyPoolsMemoryIsFreedInAStream) {
  EXPECT_EQ(cudaFreeAsync(data_[0], streams_[0]), cudaErrorInvalidValue);
  EXPECT_THAT(machine_.findings(), ElementsAre(HasSubstr("no memory of a pool")));
}

}  // namespace
}  // namespace mp::fake
