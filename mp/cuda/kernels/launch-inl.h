// How nvcc's files launch a body, and how they load it.
#ifndef MP_CUDA_KERNELS_LAUNCH_INL_H_
#define MP_CUDA_KERNELS_LAUNCH_INL_H_

#include <cuda_runtime_api.h>

#include "mp/cuda/kernels/grid.h"

namespace mp::cuda {

// On a stream.
struct LaunchOn {
  cudaStream_t stream;

  template <class Body>
  cudaError_t operator()(const Body& body, int blocks, int threads) const {
    static_assert(sizeof(Body) <= 4096, "what every driver takes as arguments of a kernel");
    void* arguments[] = {const_cast<Body*>(&body)};
    return cudaLaunchKernel(reinterpret_cast<const void*>(&RunBody<Body>),
                            dim3(static_cast<unsigned>(blocks)),
                            dim3(static_cast<unsigned>(threads)), arguments, 0, stream);
  }
};

// Not at all, but what asks for a kernel's attributes loads it.
struct LoadOnly {
  template <class Body>
  cudaError_t operator()(const Body& /*body*/, int /*blocks*/, int /*threads*/) const {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&RunBody<Body>));
  }
};

}  // namespace mp::cuda

#endif  // MP_CUDA_KERNELS_LAUNCH_INL_H_
