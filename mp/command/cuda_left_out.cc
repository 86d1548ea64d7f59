#include "mp/base/status.h"
#include "mp/command/cuda_backend.h"
#include "toolkit/left_out.h"

namespace mp::command {

std::string WhyCudaIsLeftOut() {
  const std::string missing = kWhyCudaIsLeftOut;
  return missing.empty() ? "it was not linked" : missing;
}

absl::StatusOr<std::shared_ptr<Backend>> NewCudaBackend(const std::vector<int>&) {
  return Unsupported("this build of mp has no CUDA backend: ", WhyCudaIsLeftOut(),
                     " when it was built");
}

cuda::Info LookAtCuda() {
  return {.why_no_gpu = "no CUDA backend", .why_no_nccl = "no CUDA backend"};
}

std::string CudaRoute(const cuda::Info&, size_t, size_t) { return ""; }

}  // namespace mp::command
