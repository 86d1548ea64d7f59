// The backend of NVIDIA GPUs: devices are GPUs of this machine, data moves by NCCL and peer copies.
//
//   MP_ASSIGN_OR_RETURN(auto backend, mp::cuda::NewBackend({}));
//
// Each GPU carries one rank.  Programs that use it link the CUDA runtime and NCCL.
#ifndef MP_CUDA_BACKEND_H_
#define MP_CUDA_BACKEND_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/backend.h"
#include "mp/base/sync.h"

namespace mp::cuda {

struct Options {
  // CUDA's numbers of the GPUs; device i of the Backend is devices[i].  Empty for all there are.
  std::vector<int> devices;
  // The time that deadlines are measured in; null for the machine's steady clock.  Outlives the
  // Backend.
  sync::Clock* clock = nullptr;
};

// InvalidArgument: a number that is not a GPU of this machine, or one given twice.  DeviceError: no
// driver, no GPU, or CUDA refuses.
absl::StatusOr<std::shared_ptr<Backend>> NewBackend(const Options& options);

}  // namespace mp::cuda

#endif  // MP_CUDA_BACKEND_H_
