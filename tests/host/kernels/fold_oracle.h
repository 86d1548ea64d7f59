// A reduction by its definition, one element at a time, in double or uint64_t arithmetic.
//
// A double holds every f16, bf16 and f32 exactly, and a sum, product or quotient of f32 that is
// rounded first to double and then to f32 is the correctly rounded one (53 >= 2 * 24 + 2 bits).
// Integers are sums and products modulo 2^64, cut to their size.
#ifndef MP_TESTS_HOST_KERNELS_FOLD_ORACLE_H_
#define MP_TESTS_HOST_KERNELS_FOLD_ORACLE_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "mp/dtype.h"
#include "tests/host/kernels/float16_oracle.h"

namespace mp::host {

template <typename T>
T LoadAs(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

inline double LoadFloat(DType dtype, const uint8_t* from) {
  switch (dtype) {
    case DType::kF64:
      return LoadAs<double>(from);
    case DType::kF16:
      return Decode16(kFormatF16, LoadAs<uint16_t>(from));
    case DType::kBF16:
      return Decode16(kFormatBF16, LoadAs<uint16_t>(from));
    default:
      return LoadAs<float>(from);
  }
}

// Rounds to nearest even; every NaN is the positive quiet one.
inline void StoreFloat(DType dtype, double value, uint8_t* to) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  const auto single = static_cast<float>(value);
  const uint16_t half =
      Encode16(dtype == DType::kF16 ? kFormatF16 : kFormatBF16, static_cast<double>(single));
  switch (dtype) {
    case DType::kF64:
      std::memcpy(to, &value, sizeof(value));
      return;
    case DType::kF16:
    case DType::kBF16:
      std::memcpy(to, &half, sizeof(half));
      return;
    default:
      std::memcpy(to, &single, sizeof(single));
  }
}

// Whether `a` is to the left of `b` on the line where -0 < +0.
inline bool IsLess(double a, double b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

inline double FoldFloats(DType dtype, ReduceOp op, const std::vector<double>& ranks, double scale) {
  const auto round = [dtype](double value) {
    return dtype == DType::kF64 ? value : static_cast<double>(static_cast<float>(value));
  };
  std::vector<double> scaled;
  for (const double value : ranks) scaled.push_back(round(value * round(scale)));
  double result = scaled[0];
  for (size_t r = 1; r < scaled.size(); ++r) {
    const double next = scaled[r];
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result = round(result + next);
        break;
      case ReduceOp::kProd:
        result = round(result * next);
        break;
      case ReduceOp::kMin:
        if (std::isnan(result) || IsLess(next, result)) result = next;
        break;
      case ReduceOp::kMax:
        if (std::isnan(result) || IsLess(result, next)) result = next;
        break;
    }
  }
  if (op == ReduceOp::kAvg) result = round(result / static_cast<double>(ranks.size()));
  return result;
}

inline bool IsSigned(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI32 || dtype == DType::kI64;
}

// The value modulo 2^64.
inline uint64_t LoadInteger(DType dtype, const uint8_t* from) {
  uint64_t value = 0;
  for (int64_t i = SizeOf(dtype) - 1; i >= 0; --i) value = value * 256 + from[i];
  const int bits = static_cast<int>(8 * SizeOf(dtype));
  if (IsSigned(dtype) && bits < 64 && (value >> (bits - 1)) != 0) value -= uint64_t{1} << bits;
  return value;
}

inline uint64_t FoldIntegers(DType dtype, ReduceOp op, const std::vector<uint64_t>& ranks) {
  const auto less = [dtype](uint64_t a, uint64_t b) {
    return IsSigned(dtype) ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  uint64_t result = ranks[0];
  for (size_t r = 1; r < ranks.size(); ++r) {
    const uint64_t next = ranks[r];
    if (op == ReduceOp::kSum) result += next;
    if (op == ReduceOp::kProd) result *= next;
    if (op == ReduceOp::kMin && less(next, result)) result = next;
    if (op == ReduceOp::kMax && less(result, next)) result = next;
  }
  return result;
}

// The bytes of what a fold of `inputs`, all of one size, must give.
inline std::vector<uint8_t> FoldByDefinition(DType dtype, ReduceOp op,
                                             const std::vector<std::vector<uint8_t>>& inputs,
                                             double scale = 1) {
  std::vector<uint8_t> output(inputs[0].size());
  const auto step = static_cast<size_t>(SizeOf(dtype));
  for (size_t i = 0; i < output.size(); i += step) {
    if (IsReducibleFloat(dtype)) {
      std::vector<double> ranks;
      for (const auto& input : inputs) ranks.push_back(LoadFloat(dtype, input.data() + i));
      StoreFloat(dtype, FoldFloats(dtype, op, ranks, scale), output.data() + i);
    } else {
      std::vector<uint64_t> ranks;
      for (const auto& input : inputs) ranks.push_back(LoadInteger(dtype, input.data() + i));
      const uint64_t value = FoldIntegers(dtype, op, ranks);
      for (size_t byte = 0; byte < step; ++byte) {
        output[i + byte] = static_cast<uint8_t>(value >> (8 * byte));
      }
    }
  }
  return output;
}

}  // namespace mp::host

#endif  // MP_TESTS_HOST_KERNELS_FOLD_ORACLE_H_
