// What is called in the scope spoils no capture, whoever's it is, and the thread is given back the
// mode that it had.
#include "mp/cuda/capture_mode.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/fake/machine.h"

namespace mp::cuda {
namespace {

cudaError_t Allocate() {
  void* data = nullptr;
  const cudaError_t result = cudaMalloc(&data, 4);
  return result == cudaSuccess ? cudaFree(data) : result;
}

cudaStreamCaptureMode ModeOfThread() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  cudaStreamCaptureMode found = mode;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  return found;
}

TEST(RelaxedCapture, AllowsWhatCapturesForbidAndRestoresTheMode) {
  fake::Machine machine({.devices = 1});
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  cudaGraph_t graph = nullptr;
  for (const bool relaxes : {true, false}) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    if (relaxes) {
      const RelaxedCapture outer;
      {
        const RelaxedCapture inner;
        EXPECT_EQ(Allocate(), cudaSuccess);
      }
      EXPECT_EQ(ModeOfThread(), cudaStreamCaptureModeRelaxed);
      EXPECT_EQ(Allocate(), cudaSuccess);
    } else {
      EXPECT_EQ(Allocate(), cudaErrorStreamCaptureUnsupported);
    }
    EXPECT_EQ(ModeOfThread(), cudaStreamCaptureModeGlobal);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
              relaxes ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph != nullptr ? cudaGraphDestroy(graph) : cudaSuccess, cudaSuccess);
  }
  cudaGetLastError();
  machine.FailCall("cudaThreadExchangeStreamCaptureMode", 1, cudaErrorUnknown);
  { const RelaxedCapture refused; }
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(ModeOfThread(), cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(machine.Verdict(), "");
}

}  // namespace
}  // namespace mp::cuda
