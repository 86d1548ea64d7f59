// Between mp and code that speaks CUDA itself.
//
//   auto stream = static_cast<cudaStream_t>(rank.stream().native().handle);
//   MyKernel<<<blocks, threads, 0, stream>>>(x.data());     // between two operations of the rank
//   MP_RETURN_IF_ERROR(rank.region().AllReduce(x));
//
//   TensorView y(pointer, DType::kF16, {rows, columns});    // memory that cudaMalloc gave; that of
//                                                           // a pool is open to all of the Region
//
//   MP_ASSIGN_OR_RETURN(auto mine, WrapStream(rank.device(), my_stream));
//   MP_RETURN_IF_ERROR(rank.stream().Wait(mine->Record()));  // after what my_stream holds
//   MP_RETURN_IF_ERROR(sum.Wait(*mine));                     // a Work before what it gets next
#ifndef MP_CUDA_INTEROP_H_
#define MP_CUDA_INTEROP_H_

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/status/statusor.h"
#include "mp/backend.h"
#include "mp/base/sync.h"
#include "mp/device.h"
#include "mp/stream.h"

namespace mp::cuda {

// A stream of the caller's, the default streams too, as one of mp's.  Of the wrapper nothing
// outlives the stream, nor the Backend: it is destroyed first, which waits for nothing and leaves
// the stream alone.  Of an operation that has failed a Work tells, and not the wrapper.
//
// Errors. InvalidArgument: the device is not of a CUDA backend, or the stream not of the device.
absl::StatusOr<std::unique_ptr<Stream>> WrapStream(mp::Device& device, cudaStream_t stream);

// While it lives no operation of the Backend is launched on some GPUs and not yet on others, so
// that calls of CUDA that wait for a GPU (cudaMalloc, cudaFree, a module's loading, a peer's
// mapping) are safe while other threads post operations.  What mp calls itself needs none.
//
// Errors.  A Backend that is not of CUDA has nothing to guard.
// Threads. Of the thread that made it, which calls nothing of mp meanwhile: it would wait for
// itself.
class LaunchGuard {
 public:
  explicit LaunchGuard(Backend& backend);
  ~LaunchGuard();
  LaunchGuard(const LaunchGuard&) = delete;
  LaunchGuard& operator=(const LaunchGuard&) = delete;

 private:
  sync::Mutex* const launch_;  // null where there is nothing to guard
};

}  // namespace mp::cuda

#endif  // MP_CUDA_INTEROP_H_
