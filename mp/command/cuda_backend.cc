#include "mp/command/cuda_backend.h"

#include "mp/cuda/backend.h"

namespace mp::command {

std::string WhyCudaIsLeftOut() { return ""; }

absl::StatusOr<std::shared_ptr<Backend>> NewCudaBackend(const std::vector<int>& gpus) {
  return cuda::NewBackend({.devices = gpus});
}

cuda::Info LookAtCuda() { return cuda::Look(); }

std::string CudaRoute(const cuda::Info& info, size_t a, size_t b) {
  return cuda::RouteBetween(info, a, b);
}

}  // namespace mp::command
