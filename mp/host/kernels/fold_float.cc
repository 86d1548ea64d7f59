#include "mp/host/kernels/fold_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mp/host/kernels/fold_float.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "mp/host/kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mp::host::HWY_NAMESPACE {

FoldFn FindFloatFold(DType dtype, ReduceOp op) {
  return dtype == DType::kF32 ? FindFloatingFold<Plain<float>>(op)
                              : FindFloatingFold<Plain<double>>(op);
}

}  // namespace mp::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mp::host {

HWY_EXPORT(FindFloatFold);

FoldFn FloatFoldFor(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindFloatFold)(dtype, op);
}

}  // namespace mp::host
#endif  // HWY_ONCE
