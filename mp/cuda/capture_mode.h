// Lets the calling thread, for a scope, make calls that could wait for a device while somebody's
// streams capture.  A capture of the application's in CUDA's global mode forbids them to every
// thread, and is spoilt by whoever makes them all the same, even by a query.
//
//   const RelaxedCapture relaxed;
//   const cudaError_t result = cudaEventQuery(event);
#ifndef MP_CUDA_CAPTURE_MODE_H_
#define MP_CUDA_CAPTURE_MODE_H_

#include <cuda_runtime_api.h>

#include "mp/cuda/status.h"

namespace mp::cuda {

class RelaxedCapture {
 public:
  RelaxedCapture() : changed_(Exchange()) {}
  ~RelaxedCapture() {
    if (changed_) Exchange();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  // Where CUDA refuses, the mode stays as it was, and the calls that follow say what is wrong.
  bool Exchange() {
    const cudaError_t result = cudaThreadExchangeStreamCaptureMode(&mode_);
    Forgive(result);
    return result == cudaSuccess;
  }

  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then what the thread had before
  const bool changed_;
};

}  // namespace mp::cuda

#endif  // MP_CUDA_CAPTURE_MODE_H_
