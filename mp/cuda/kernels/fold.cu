#include "mp/cuda/kernels/fold-inl.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/cuda/kernels/launch-inl.h"

namespace mp::cuda {

cudaError_t LaunchFold(const Fold& fold, cudaStream_t stream) {
  return LaunchFoldBy(fold, LaunchOn{stream});
}

cudaError_t LoadFolds() { return LoadFoldsBy(LoadOnly{}); }

}  // namespace mp::cuda
