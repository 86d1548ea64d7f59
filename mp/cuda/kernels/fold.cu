#include "mp/cuda/kernels/fold-inl.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/cuda/kernels/launch-inl.h"

namespace mp::cuda {

cudaError_t LaunchFold(const Fold& fold, cudaStream_t stream) {
  return LaunchFoldBy(fold, LaunchOn{stream});
}

cudaError_t LoadFolds() {
  LoadOnly load;
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      Fold fold;
      fold.dtype = static_cast<DType>(dtype);
      fold.op = static_cast<ReduceOp>(op);
      if (!IsDefined(fold)) continue;
      const cudaError_t error = LaunchDefined(fold, load);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

}  // namespace mp::cuda
