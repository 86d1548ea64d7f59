// Strided copies between memories that one GPU reaches, many in one launch: what a gather pushes.
//
//   // Columns [64, 128) of a row-major f32 matrix with 256 columns:
//   StridedCopy copy = {.from = {block, 64 * 4}, .to = {matrix + 64, 256 * 4}};
//   copy.width = 64 * 4;
//   copy.height = rows;
//   MP_RETURN_IF_ERROR(MP_CUDA(LaunchCopies(&copy, 1, stream)));
//
// Any alignment; each thread moves as many bytes at once as the addresses allow, up to 16.
// Sources and targets do not overlap.
//
// Errors.    cudaErrorInvalidValue, and nothing is enqueued: a negative size.  Else what CUDA says,
//            after which some of the copies may have been enqueued.
// Threads.   Any; the stream's device is the current one.
// Ownership. Pointers are used until the stream has passed the kernel; `copies` until the call
//            returns.
#ifndef MP_CUDA_KERNELS_COPY_H_
#define MP_CUDA_KERNELS_COPY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mp::cuda {

// `depth` blocks of `height` rows of `width` contiguous bytes; pitches are bytes from the start of
// a row or block to that of the next.
struct StridedCopy {
  template <typename Byte>
  struct Side {
    Byte* data = nullptr;
    int64_t row_pitch = 0;
    int64_t block_pitch = 0;
  };
  Side<const std::byte> from;
  Side<std::byte> to;
  int64_t width = 0;
  int64_t height = 1;
  int64_t depth = 1;
};

// One launch for about a dozen copies or more, several where there are many.  See Fold about
// most_blocks.
cudaError_t LaunchCopies(const StridedCopy* copies, int count, cudaStream_t stream,
                         int most_blocks = 1024);

// Loads the kernel onto the current device.  A first launch would do it, and could wait there for
// what is running.
cudaError_t LoadCopies();

}  // namespace mp::cuda

#endif  // MP_CUDA_KERNELS_COPY_H_
