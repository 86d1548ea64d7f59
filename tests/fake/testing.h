// What the tests of the fakes begin with: streams, memory and communicators of a machine.
#ifndef MP_TESTS_FAKE_TESTING_H_
#define MP_TESTS_FAKE_TESTING_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mp::fake {

inline cudaStream_t NewStream(int device) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

inline cudaEvent_t NewEvent() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  return event;
}

inline float* NewFloats(int device, size_t count) {
  void* data = nullptr;
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, count * sizeof(float)), cudaSuccess);
  return static_cast<float*>(data);
}

inline void Write(float* target, const std::vector<float>& values, cudaStream_t stream) {
  EXPECT_EQ(cudaMemcpyAsync(target, values.data(), values.size() * sizeof(float),
                            cudaMemcpyHostToDevice, stream),
            cudaSuccess);
}

inline std::vector<float> Read(const float* source, size_t count, cudaStream_t stream) {
  std::vector<float> values(count);
  EXPECT_EQ(
      cudaMemcpyAsync(values.data(), source, count * sizeof(float), cudaMemcpyDeviceToHost, stream),
      cudaSuccess);
  return values;
}

inline cudaError_t Await(cudaEvent_t event) {
  cudaError_t result = cudaEventQuery(event);
  for (; result == cudaErrorNotReady; result = cudaEventQuery(event)) std::this_thread::yield();
  return result;
}

inline ncclResult_t Sum(float* data, size_t count, ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream);
}

// Communicators of devices 0 .. n-1 with a stream each, and what they are freed by.
struct Ranks {
  explicit Ranks(int n) : comms(static_cast<size_t>(n)) {
    std::vector<int> devices;
    for (int d = 0; d < n; ++d) devices.push_back(d);
    EXPECT_EQ(ncclCommInitAll(comms.data(), n, devices.data()), ncclSuccess);
    for (int d = 0; d < n; ++d) {
      streams.push_back(NewStream(d));
      data.push_back(NewFloats(d, 4));
    }
  }
  void Free(bool abort = false) {
    ncclGroupStart();
    for (ncclComm_t comm : comms) abort ? ncclCommAbort(comm) : ncclCommDestroy(comm);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    for (float* it : data) EXPECT_EQ(cudaFree(it), cudaSuccess);
    for (cudaStream_t stream : streams) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  std::vector<ncclComm_t> comms;
  std::vector<cudaStream_t> streams;
  std::vector<float*> data;
};

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_TESTING_H_
