#include "mp/cuda/kernels/copy-inl.h"
#include "mp/cuda/kernels/copy.h"
#include "mp/cuda/kernels/launch-inl.h"

namespace mp::cuda {

cudaError_t LaunchCopies(const StridedCopy* copies, int count, cudaStream_t stream,
                         int most_blocks) {
  return LaunchCopiesBy(copies, count, most_blocks, LaunchOn{stream});
}

cudaError_t LoadCopies() { return LoadOnly{}(CopyBody{}, 1, kCopyThreads); }

}  // namespace mp::cuda
