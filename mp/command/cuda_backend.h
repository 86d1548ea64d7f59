// The CUDA backend as this build of mp has it.  The program links one of two: cuda_backend.cc, or
// cuda_left_out.cc where something was missing when it was built.
#ifndef MP_COMMAND_CUDA_BACKEND_H_
#define MP_COMMAND_CUDA_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/backend.h"
#include "mp/cuda/info.h"

namespace mp::command {

// Why this build has none: "no CUDA toolkit in /usr/local/cuda"; empty where it has one.
std::string WhyCudaIsLeftOut();

// Device i of the Backend is GPU gpus[i].  Unsupported where it is left out.
absl::StatusOr<std::shared_ptr<Backend>> NewCudaBackend(const std::vector<int>& gpus);

// Where it is left out there is no GPU, and no NCCL.
cuda::Info LookAtCuda();

// How data goes between GPUs a and b, in words.
std::string CudaRoute(const cuda::Info& info, size_t a, size_t b);

}  // namespace mp::command

#endif  // MP_COMMAND_CUDA_BACKEND_H_
