// What mp relies on in the CUDA runtime and NCCL, tested against their plain C functions: the same
// files run over the fakes and, linked with the real libraries, on a machine with GPUs.  A fake
// that answers differently from hardware would show there.
//
// Nothing in them breaks a device for the process.  Tests of two devices are left out where there
// is one, all of them where there is none.
#ifndef MP_TESTS_CUDA_FIDELITY_H_
#define MP_TESTS_CUDA_FIDELITY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "mp/base/sync.h"

namespace mp::cuda {

inline int DeviceCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// A stream, two events and memory of one device.
struct OnDevice {
  static constexpr size_t kCount = 64;

  explicit OnDevice(int which) : device(which) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (cudaEvent_t* it : {&event, &other}) {
      EXPECT_EQ(cudaEventCreateWithFlags(it, cudaEventDisableTiming), cudaSuccess);
    }
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, kCount * sizeof(int)), cudaSuccess);
    data = static_cast<int*>(memory);
    Write(std::vector<int>(kCount, -1));
  }
  ~OnDevice() {
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaFree(data), cudaSuccess);
    for (cudaEvent_t it : {event, other}) EXPECT_EQ(cudaEventDestroy(it), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void Write(const std::vector<int>& values) {
    EXPECT_EQ(cudaMemcpyAsync(data, values.data(), values.size() * sizeof(int),
                              cudaMemcpyHostToDevice, stream),
              cudaSuccess);
  }
  std::vector<int> Read(size_t count) {
    std::vector<int> values(count);
    EXPECT_EQ(
        cudaMemcpyAsync(values.data(), data, count * sizeof(int), cudaMemcpyDeviceToHost, stream),
        cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return values;
  }

  int device;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr, other = nullptr;
  int* data = nullptr;
};

inline void OnAnotherThread(std::function<void()> body) {
  sync::Thread::Start("other", std::move(body))->Join();
}

// Holds a stream up until it is opened.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    EXPECT_EQ(cudaLaunchHostFunc(stream, Wait, &open_), cudaSuccess);
  }
  void Open() { open_.store(true, sync::kRelease); }

 private:
  static void Wait(void* open) {
    while (!static_cast<sync::Atomic<bool>*>(open)->load(sync::kAcquire)) sync::Yield();
  }
  sync::Atomic<bool> open_{false};
};

// The number of devices that a test needs where there are so many, else nothing; says so.
inline std::vector<int> Needs(int devices) {
  const int count = DeviceCount();
  if (count >= devices) return {devices};
  std::printf("left out: tests of %d devices, of which there are %d\n", devices, count);
  return {};
}

// With device 0 current.
class FidelityTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { EXPECT_EQ(cudaSetDevice(0), cudaSuccess); }
};

class PairFidelityTest : public FidelityTest {};

inline cudaGraphExec_t Instantiate(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return exec;
}

}  // namespace mp::cuda

#endif  // MP_TESTS_CUDA_FIDELITY_H_
