#include "mp/host/kernels/fold_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mp/host/kernels/fold_half.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "mp/host/kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mp::host::HWY_NAMESPACE {

FoldFn FindHalfFold(DType dtype, ReduceOp op) {
  return dtype == DType::kF16 ? FindFloatingFold<Float16>(op) : FindFloatingFold<BFloat16>(op);
}

}  // namespace mp::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mp::host {

HWY_EXPORT(FindHalfFold);

FoldFn HalfFoldFor(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindHalfFold)(dtype, op);
}

}  // namespace mp::host
#endif  // HWY_ONCE
