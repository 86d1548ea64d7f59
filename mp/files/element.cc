#include "mp/files/element.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mp::files {
namespace {

template <typename T>
T Load(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

template <typename Int>
std::string IntegerText(const void* element) {
  return absl::StrCat(+Load<Int>(element));
}

std::string FloatText(double value) { return absl::StrFormat("%.9g", value); }
std::string DoubleText(double value) { return absl::StrFormat("%.17g", value); }

// A sign, then `exponent_bits`, then `mantissa_bits`.  `finite_top`: the highest exponent is a
// number like others and only its last mantissa is NaN, as in e4m3; else it is Inf and NaN.
double SmallFloat(uint32_t bits, int exponent_bits, int mantissa_bits, bool finite_top) {
  const uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
  const uint32_t top = (1U << exponent_bits) - 1;
  const uint32_t exponent = bits >> mantissa_bits & top;
  const bool negative = (bits >> (mantissa_bits + exponent_bits) & 1) != 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const bool is_nan =
      exponent == top && (finite_top ? mantissa == (1U << mantissa_bits) - 1 : mantissa != 0);
  double value = 0;
  if (is_nan) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == top && !finite_top) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1U << mantissa_bits),
                       static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return negative ? -value : value;
}

std::string ValueText(DType dtype, const void* element) {
  const auto* bytes = static_cast<const char*>(element);
  switch (dtype) {
    case DType::kF32:
      return FloatText(Load<float>(element));
    case DType::kF64:
      return DoubleText(Load<double>(element));
    case DType::kF16:
      return FloatText(SmallFloat(Load<uint16_t>(element), 5, 10, false));
    case DType::kBF16:
      return FloatText(SmallFloat(Load<uint16_t>(element), 8, 7, false));
    case DType::kF8E4M3:
      return FloatText(SmallFloat(Load<uint8_t>(element), 4, 3, true));
    case DType::kF8E5M2:
      return FloatText(SmallFloat(Load<uint8_t>(element), 5, 2, false));
    case DType::kI8:
      return IntegerText<int8_t>(element);
    case DType::kU8:
    case DType::kBool:
      return IntegerText<uint8_t>(element);
    case DType::kI16:
      return IntegerText<int16_t>(element);
    case DType::kU16:
      return IntegerText<uint16_t>(element);
    case DType::kI32:
      return IntegerText<int32_t>(element);
    case DType::kU32:
      return IntegerText<uint32_t>(element);
    case DType::kI64:
      return IntegerText<int64_t>(element);
    case DType::kU64:
      return IntegerText<uint64_t>(element);
    case DType::kC64:
      return absl::StrCat("(", FloatText(Load<float>(bytes)), ", ",
                          FloatText(Load<float>(bytes + sizeof(float))), ")");
    case DType::kC128:
      return absl::StrCat("(", DoubleText(Load<double>(bytes)), ", ",
                          DoubleText(Load<double>(bytes + sizeof(double))), ")");
  }
  return "?";
}

}  // namespace

std::string ElementText(DType dtype, const void* element) {
  std::string bits;
  for (int64_t i = SizeOf(dtype); i-- > 0;) {
    absl::StrAppendFormat(&bits, "%02x", static_cast<const unsigned char*>(element)[i]);
  }
  return absl::StrCat(ValueText(dtype, element), " (bits ", bits, ")");
}

}  // namespace mp::files
