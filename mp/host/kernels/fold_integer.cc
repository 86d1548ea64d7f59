#include "mp/host/kernels/fold_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mp/host/kernels/fold_integer.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "mp/host/kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mp::host::HWY_NAMESPACE {

// Sums and products wrap, so those of a signed type are those of the unsigned one.
template <typename T>
FoldFn FindFor(ReduceOp op) {
  using Unsigned = Plain<std::make_unsigned_t<T>>;
  using Factor = std::conditional_t<sizeof(T) == 1, WideByte, Unsigned>;
  switch (op) {
    case ReduceOp::kSum:
      return RunFold<Unsigned, Sum>;
    case ReduceOp::kProd:
      return RunFold<Factor, Product>;
    case ReduceOp::kMin:
      return RunFold<Plain<T>, Minimum>;
    case ReduceOp::kMax:
      return RunFold<Plain<T>, Maximum>;
    case ReduceOp::kAvg:
      return nullptr;
  }
  return nullptr;
}

FoldFn FindIntegerFold(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kI8:
      return FindFor<int8_t>(op);
    case DType::kU8:
      return FindFor<uint8_t>(op);
    case DType::kI32:
      return FindFor<int32_t>(op);
    case DType::kU32:
      return FindFor<uint32_t>(op);
    case DType::kI64:
      return FindFor<int64_t>(op);
    case DType::kU64:
      return FindFor<uint64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace mp::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mp::host {

HWY_EXPORT(FindIntegerFold);

FoldFn IntegerFoldFor(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(FindIntegerFold)(dtype, op);
}

}  // namespace mp::host
#endif  // HWY_ONCE
