// Makes a device the calling thread's current one for a scope, and gives the thread back as it was
// whatever CUDA, NCCL or the user's code did to it in between.
//
//   CurrentDevice current(ordinal);
//   MP_RETURN_IF_ERROR(current.status());
#ifndef MP_CUDA_CURRENT_DEVICE_H_
#define MP_CUDA_CURRENT_DEVICE_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "mp/cuda/status.h"

namespace mp::cuda {

class CurrentDevice {
 public:
  // Leaves the current device and only restores it at the end.
  CurrentDevice() : status_(MP_CUDA(cudaGetDevice(&before_))) {}

  explicit CurrentDevice(int ordinal) : CurrentDevice() {
    if (status_.ok() && ordinal != before_) status_ = MP_CUDA(cudaSetDevice(ordinal));
  }

  ~CurrentDevice() {
    int now = -1;
    if (before_ < 0) return;
    const cudaError_t known = cudaGetDevice(&now);
    Forgive(known);  // there is nobody to tell
    if (known != cudaSuccess || now != before_) Forgive(cudaSetDevice(before_));
  }

  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  int before_ = -1;
  absl::Status status_;
};

}  // namespace mp::cuda

#endif  // MP_CUDA_CURRENT_DEVICE_H_
