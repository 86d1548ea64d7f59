// How the fake launches a body: as a function of the stream, which runs it interleaved.
#ifndef MP_TESTS_FAKE_KERNELS_LAUNCH_H_
#define MP_TESTS_FAKE_KERNELS_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <utility>

#include "tests/fake/kernels/interleaved.h"

namespace mp::fake {

// Enqueues `run`; the seed is another one each time.
cudaError_t EnqueueKernel(cudaStream_t stream, std::function<void(Interleaved)> run);

struct LaunchOn {
  cudaStream_t stream;

  template <class Body>
  cudaError_t operator()(const Body& body, int blocks, int threads) const {
    return EnqueueKernel(stream,
                         [=](Interleaved interleaved) { interleaved(body, blocks, threads); });
  }
};

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_KERNELS_LAUNCH_H_
