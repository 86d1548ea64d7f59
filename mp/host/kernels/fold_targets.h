// What the three translation units of the folds give to FoldFor: the fold for this machine's best
// vector target, or nullptr.  They are apart only so that they compile side by side.
#ifndef MP_HOST_KERNELS_FOLD_TARGETS_H_
#define MP_HOST_KERNELS_FOLD_TARGETS_H_

#include "mp/dtype.h"
#include "mp/host/kernels/fold.h"

namespace mp::host {

FoldFn FloatFoldFor(DType dtype, ReduceOp op);    // f32, f64
FoldFn HalfFoldFor(DType dtype, ReduceOp op);     // f16, bf16
FoldFn IntegerFoldFor(DType dtype, ReduceOp op);  // i8, u8, i32, u32, i64, u64

}  // namespace mp::host

#endif  // MP_HOST_KERNELS_FOLD_TARGETS_H_
