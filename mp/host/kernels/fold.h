// The arithmetic of a reduction: one pass that reads every input once, folds from left to right
// in registers and writes the same value to every output.
//
//   FoldFn fold = FoldFor(DType::kF32, ReduceOp::kSum);
//   fold(inputs, 4, outputs, 4, /*begin=*/0, /*count=*/4096, {});  // outputs[k][i] = the sum
//
// | type | state | the end |
// |---|---|---|
// | f32, f64 | the same type | as it is |
// | f16, bf16 | f32 | rounded once, to nearest even |
// | integers | the same type, modulo 2^bits | as it is |
//
// The fold starts from inputs[0] itself and takes the others in order, so that a result depends on
// neither the slicing nor the machine: [begin, begin + count) in one call or in many, on any
// vector target, gives equal bits.  avg divides the sum once by n, in the state's type.  min and
// max: a number beats NaN, NaN comes out only where all are NaN, -0 < +0.  A NaN that comes out is
// always the positive quiet one without payload.
//
// Floating point follows IEEE 754 only where the thread's mode does: see fp_mode.h.
//
// Threads.   Any; a call touches nothing but its ranges.
// Ownership. Nothing is retained.
#ifndef MP_HOST_KERNELS_FOLD_H_
#define MP_HOST_KERNELS_FOLD_H_

#include <cstdint>

#include "mp/dtype.h"

namespace mp::host {

struct FoldOptions {
  // Multiplies every input before it is folded, rounded to the state's type on its own.  Integer
  // folds ignore it.
  double scale = 1.0;
  // Writes past the caches.  Only a hint: worth it where the outputs are written out of place and
  // exceed StreamingThresholdBytes().  Such stores are complete when the call returns.
  bool streaming = false;
};

// Folds elements [begin, begin + count) of `n` >= 1 inputs into the same elements of `m` >= 0
// outputs.  Pointers name element 0 and need no alignment.  An output may be the same pointer as
// an input; otherwise no range of an output overlaps another range.
using FoldFn = void (*)(const void* const* inputs, int n, void* const* outputs, int m,
                        int64_t begin, int64_t count, const FoldOptions& options);

// The fold of the pair, or nullptr where it is not defined: types that can only be moved, and the
// average of integers.  Costs a few ns.
FoldFn FoldFor(DType dtype, ReduceOp op);

}  // namespace mp::host

#endif  // MP_HOST_KERNELS_FOLD_H_
