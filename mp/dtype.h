// Element types and reductions, and which reduction is defined for which type.
#ifndef MP_DTYPE_H_
#define MP_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace mp {

// Element types.  The first ten can be reduced; the others can only be moved.
enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI8,
  kU8,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kI16,
  kU16,
  kC64,   // two f32
  kC128,  // two f64
};
inline constexpr int kDTypeCount = 17;

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kC128:
      return 16;
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
    case DType::kC64:
      return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return 1;
  }
  return 1;
}

// Whether sums, products, minima and maxima of the type are defined.
constexpr bool IsReducible(DType dtype) { return dtype <= DType::kU64; }

// f32, f64, f16, bf16: the types with an average and a scale.
constexpr bool IsReducibleFloat(DType dtype) { return dtype <= DType::kBF16; }

// "f32", "bf16", "f8e4m3", ...
absl::string_view DTypeName(DType dtype);

// The inverse of DTypeName.
std::optional<DType> DTypeFromName(absl::string_view name);

// avg is the sum divided once by the number of ranks.
enum class ReduceOp : uint8_t { kSum, kProd, kMin, kMax, kAvg };
inline constexpr int kReduceOpCount = 5;

// "sum", "prod", "min", "max", "avg".
absl::string_view ReduceOpName(ReduceOp op);
std::optional<ReduceOp> ReduceOpFromName(absl::string_view name);

}  // namespace mp

#endif  // MP_DTYPE_H_
