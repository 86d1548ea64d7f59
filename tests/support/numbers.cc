#include "tests/support/numbers.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mp::test {
namespace {

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void Store(T value, uint8_t* to) {
  std::memcpy(to, &value, sizeof value);
}

// Calls visit(T()) with the C++ type of `dtype`; the 16-bit floats have none and are not taken.
template <typename Visitor>
auto VisitType(DType dtype, const Visitor& visit) {
  switch (dtype) {
    case DType::kF32:
      return visit(float());
    case DType::kI8:
      return visit(int8_t());
    case DType::kU8:
      return visit(uint8_t());
    case DType::kI32:
      return visit(int32_t());
    case DType::kU32:
      return visit(uint32_t());
    case DType::kI64:
      return visit(int64_t());
    case DType::kU64:
      return visit(uint64_t());
    default:
      return visit(double());
  }
}

bool IsHalf(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
HalfFormat FormatOf(DType dtype) { return dtype == DType::kF16 ? kF16Format : kBF16Format; }

uint16_t HalfInfinity(HalfFormat format) {
  return static_cast<uint16_t>(0x7FFF >> format.mantissa_bits << format.mantissa_bits);
}

template <typename Make>
Bytes Generate(DType dtype, int64_t count, const Make& make) {
  Bytes bytes(static_cast<size_t>(count * SizeOf(dtype)));
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(SizeOf(dtype))) {
    make(&bytes[at]);
  }
  return bytes;
}

double WildNumber(DType dtype, Random& random, bool specials) {
  if (random.OneIn(16)) return random.OneIn(2) ? 0.0 : -0.0;
  if (random.OneIn(16)) {
    const int smallest = dtype == DType::kF16 ? -24 : dtype == DType::kF64 ? -1070 : -133;
    return std::ldexp(random.Below(8) - 4, smallest);
  }
  if (specials && random.OneIn(8)) {
    if (random.OneIn(2)) return std::numeric_limits<double>::quiet_NaN();
    return random.OneIn(2) ? HUGE_VAL : -HUGE_VAL;
  }
  const double mantissa = static_cast<double>(random.Bits() >> 11) * 0x1p-53 + 1;
  return std::ldexp(random.OneIn(2) ? mantissa : -mantissa, random.Below(16) - 8);
}

}  // namespace

std::vector<DType> ReducibleTypes() {
  return {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
          DType::kU8,  DType::kI32, DType::kU32, DType::kI64,  DType::kU64};
}

std::vector<DType> AllTypes() {
  std::vector<DType> types = ReducibleTypes();
  for (DType dtype : {DType::kBool, DType::kF8E4M3, DType::kF8E5M2, DType::kI16, DType::kU16,
                      DType::kC64, DType::kC128}) {
    types.push_back(dtype);
  }
  return types;
}

uint16_t EncodeHalf(HalfFormat format, double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint16_t infinity = HalfInfinity(format);
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | infinity >> 1);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = std::max(exponent - 1, format.lowest_exponent);
  // The number in units of its last place: a whole number after rounding, exactly.
  const auto units = static_cast<int64_t>(
      std::nearbyint(std::ldexp(std::fabs(value), format.mantissa_bits - exponent)));
  const int64_t bits =
      units + (static_cast<int64_t>(exponent - format.lowest_exponent) << format.mantissa_bits);
  return static_cast<uint16_t>(sign | std::min<int64_t>(bits, infinity));
}

double DecodeHalf(HalfFormat format, uint16_t bits) {
  const int magnitude = bits & 0x7FFF;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int infinity = HalfInfinity(format);
  if (magnitude > infinity) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == infinity) return sign * HUGE_VAL;
  const int fraction = magnitude & ((1 << format.mantissa_bits) - 1);
  const int field = magnitude >> format.mantissa_bits;
  const int units = field == 0 ? fraction : fraction + (1 << format.mantissa_bits);
  const int exponent = format.lowest_exponent + std::max(field - 1, 0);
  return sign * std::ldexp(units, exponent - format.mantissa_bits);
}

void Encode(DType dtype, double value, uint8_t* to) {
  if (IsHalf(dtype)) return Store(EncodeHalf(FormatOf(dtype), value), to);
  VisitType(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      Store(static_cast<T>(static_cast<int64_t>(value)), to);
    } else {
      Store(static_cast<T>(value), to);
    }
  });
}

double Decode(DType dtype, const uint8_t* from) {
  if (IsHalf(dtype)) return DecodeHalf(FormatOf(dtype), Load<uint16_t>(from));
  return VisitType(dtype,
                   [&](auto zero) { return static_cast<double>(Load<decltype(zero)>(from)); });
}

bool IsNaN(DType dtype, const uint8_t* from) {
  return IsReducibleFloat(dtype) && std::isnan(Decode(dtype, from));
}

std::string Describe(DType dtype, const uint8_t* element) {
  std::string hex = "0x";
  for (int64_t i = SizeOf(dtype); i-- > 0;) absl::StrAppendFormat(&hex, "%02x", element[i]);
  return IsReducible(dtype) ? absl::StrCat(Decode(dtype, element), " (", hex, ")") : hex;
}

Bytes EncodeAll(DType dtype, const std::vector<double>& values) {
  size_t next = 0;
  return Generate(dtype, static_cast<int64_t>(values.size()),
                  [&](uint8_t* to) { Encode(dtype, values[next++], to); });
}

std::string FirstDifference(DType dtype, const Bytes& got, const Bytes& expected, bool nan_alike) {
  if (got.size() == expected.size() &&
      (got.empty() || std::memcmp(got.data(), expected.data(), got.size()) == 0)) {
    return "";
  }
  if (got.size() != expected.size()) {
    return absl::StrCat(got.size(), " bytes instead of ", expected.size());
  }
  const auto size = static_cast<size_t>(SizeOf(dtype));
  for (size_t at = 0; at < got.size(); at += size) {
    if (std::memcmp(&got[at], &expected[at], size) == 0) continue;
    if (nan_alike && IsNaN(dtype, &got[at]) && IsNaN(dtype, &expected[at])) continue;
    return absl::StrCat("element ", at / size, " of ", got.size() / size, " is ",
                        Describe(dtype, &got[at]), " instead of ", Describe(dtype, &expected[at]));
  }
  return "";
}

Bytes AnyBits(DType dtype, int64_t count, uint64_t seed) {
  Random random(seed);
  Bytes bytes(static_cast<size_t>(count * SizeOf(dtype)));
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) Store(random.Bits(), &bytes[at]);
  for (; at < bytes.size(); ++at) bytes[at] = static_cast<uint8_t>(random.Bits());
  if (dtype == DType::kBool) {
    for (uint8_t& byte : bytes) byte &= 1;
  }
  return bytes;
}

Bytes SmallNumbers(DType dtype, int64_t count, uint64_t seed) {
  Random random(seed);
  return Generate(dtype, count, [&](uint8_t* to) { Encode(dtype, random.Below(17) - 8, to); });
}

Bytes SmallFactors(DType dtype, int64_t count, uint64_t seed) {
  Random random(seed);
  return Generate(dtype, count, [&](uint8_t* to) {
    const double factor = 1 << random.Below(3);
    Encode(dtype, random.OneIn(2) ? factor : -factor, to);
  });
}

Bytes WildNumbers(DType dtype, int64_t count, uint64_t seed, bool specials) {
  if (!IsReducibleFloat(dtype)) return AnyBits(dtype, count, seed);
  Random random(seed);
  return Generate(dtype, count,
                  [&](uint8_t* to) { Encode(dtype, WildNumber(dtype, random, specials), to); });
}

std::vector<int> Random::Permutation(int n) {
  std::vector<int> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int i = n - 1; i > 0; --i) {
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(Below(i + 1))]);
  }
  return order;
}

}  // namespace mp::test
