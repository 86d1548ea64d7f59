#include "mp/host/kernels/fold.h"

#include "mp/host/kernels/fold_targets.h"

namespace mp::host {

FoldFn FoldFor(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
      return FloatFoldFor(dtype, op);
    case DType::kF16:
    case DType::kBF16:
      return HalfFoldFor(dtype, op);
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
      return IntegerFoldFor(dtype, op);
    default:
      return nullptr;
  }
}

}  // namespace mp::host
