// The one conversion from what a CUDA or NCCL call answers to a Status with the call's own text.
//
//   MP_RETURN_IF_ERROR(MP_CUDA(cudaEventRecord(event, stream)));
//   MP_RETURN_IF_ERROR(MP_CUDA(ncclGroupEnd()));
//
// Errors.  DeviceLost for those that CUDA repeats for the rest of the process, else DeviceError.
#ifndef MP_CUDA_STATUS_H_
#define MP_CUDA_STATUS_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mp/base/status.h"

#define MP_CUDA(call) ::mp::cuda::ToStatus((call), #call)

namespace mp::cuda {

absl::Status ToStatus(cudaError_t result, absl::string_view call);
absl::Status ToStatus(ncclResult_t result, absl::string_view call);

// After a call whose error is an answer, or nobody's to be told: CUDA keeps a copy for this thread,
// which would be blamed on a later call.  What the application left there stays, unless CUDA has
// overwritten it.
inline void Forgive(cudaError_t result) {
  if (result != cudaSuccess && cudaPeekAtLastError() == result) cudaGetLastError();
}
// DeviceLost with the first cause, once any call has answered so in this process: OK never again.
absl::Status CheckNotLost();

// `status` as Stream::Report takes it.
Failure ToFailure(const absl::Status& status);

}  // namespace mp::cuda

#endif  // MP_CUDA_STATUS_H_
