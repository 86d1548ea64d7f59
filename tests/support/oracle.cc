#include "tests/support/oracle.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace mp::test {
namespace {

template <typename T>
T Smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <typename T>
T Larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

// Sums and products of integers are made in 64 unsigned bits: their low bits are right.
template <typename T>
T Combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kMin:
      return Smaller(a, b);
    case ReduceOp::kMax:
      return Larger(a, b);
    case ReduceOp::kProd:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      } else {
        return a * b;
      }
    default:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      } else {
        return a + b;
      }
  }
}

// T: what it is summed in.  Loads and stores convert.
template <typename T, typename LoadFn, typename StoreFn>
Bytes FoldAs(ReduceOp op, double scale, const std::vector<Bytes>& inputs, size_t element,
             const LoadFn& load, const StoreFn& store) {
  Bytes result(inputs[0].size());
  const auto scaled = [&](T x) {
    if constexpr (std::is_floating_point_v<T>) return scale == 1 ? x : x * static_cast<T>(scale);
    return x;
  };
  for (size_t at = 0; at < result.size(); at += element) {
    T state = scaled(load(&inputs[0][at]));
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      state = Combine(op, state, scaled(load(&inputs[rank][at])));
    }
    if (op == ReduceOp::kAvg) state = static_cast<T>(state / static_cast<T>(inputs.size()));
    store(state, &result[at]);
  }
  return result;
}

template <typename T>
Bytes FoldPlain(ReduceOp op, double scale, const std::vector<Bytes>& inputs) {
  return FoldAs<T>(
      op, scale, inputs, sizeof(T),
      [](const uint8_t* from) {
        T x;
        std::memcpy(&x, from, sizeof x);
        return x;
      },
      [](T x, uint8_t* to) { std::memcpy(to, &x, sizeof x); });
}

Bytes FoldHalf(HalfFormat format, ReduceOp op, double scale, const std::vector<Bytes>& inputs) {
  return FoldAs<float>(
      op, scale, inputs, 2,
      [&](const uint8_t* from) {
        return static_cast<float>(
            DecodeHalf(format, static_cast<uint16_t>(from[0] | from[1] << 8)));
      },
      [&](float x, uint8_t* to) {
        const uint16_t bits = EncodeHalf(format, static_cast<double>(x));
        to[0] = static_cast<uint8_t>(bits);
        to[1] = static_cast<uint8_t>(bits >> 8);
      });
}

// The distance between the smallest numbers: what a rounding can cost where numbers run out.
double SmallestStep(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-24;
    case DType::kBF16:
      return 0x1p-133;
    case DType::kF64:
      return 0x1p-1074;
    default:
      return 0x1p-149;
  }
}

double UnitRoundoff(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

}  // namespace

Bytes Fold(DType dtype, ReduceOp op, double scale, const std::vector<Bytes>& inputs) {
  switch (dtype) {
    case DType::kF16:
      return FoldHalf(kF16Format, op, scale, inputs);
    case DType::kBF16:
      return FoldHalf(kBF16Format, op, scale, inputs);
    case DType::kF32:
      return FoldPlain<float>(op, scale, inputs);
    case DType::kF64:
      return FoldPlain<double>(op, scale, inputs);
    case DType::kI8:
      return FoldPlain<int8_t>(op, scale, inputs);
    case DType::kU8:
      return FoldPlain<uint8_t>(op, scale, inputs);
    case DType::kI32:
      return FoldPlain<int32_t>(op, scale, inputs);
    case DType::kU32:
      return FoldPlain<uint32_t>(op, scale, inputs);
    case DType::kI64:
      return FoldPlain<int64_t>(op, scale, inputs);
    default:
      return FoldPlain<uint64_t>(op, scale, inputs);
  }
}

Bytes Join(DType dtype, const std::vector<Shape>& shapes, int dim,
           const std::vector<Bytes>& shards) {
  const int rank = shapes[0].rank();
  int64_t joined = 0;
  for (const Shape& shape : shapes) joined += shape.dim(dim);
  const int64_t outer = shapes[0].Product(0, dim);
  const int64_t inner = shapes[0].Product(dim + 1, rank) * SizeOf(dtype);
  Bytes full(static_cast<size_t>(outer * joined * inner));
  for (int64_t i = 0; i < outer; ++i) {
    int64_t offset = 0;
    for (size_t r = 0; r < shards.size(); ++r) {
      const int64_t block = shapes[r].dim(dim) * inner;
      if (block != 0) {
        std::memcpy(&full[static_cast<size_t>(i * joined * inner + offset)],
                    &shards[r][static_cast<size_t>(i * block)], static_cast<size_t>(block));
      }
      offset += block;
    }
  }
  return full;
}

std::string SumBoundViolation(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs,
                              const Bytes& got) {
  const auto element = static_cast<size_t>(SizeOf(dtype));
  const auto n = static_cast<double>(inputs.size());
  const double k = n * UnitRoundoff(dtype);  // n - 1 sums, and the one division of an average
  for (size_t at = 0; at < got.size(); at += element) {
    long double exact = 0, magnitude = 0;
    for (const Bytes& input : inputs) {
      exact += Decode(dtype, &input[at]);
      magnitude += std::fabs(Decode(dtype, &input[at]));
    }
    const long double divisor = op == ReduceOp::kAvg ? n : 1;
    const long double distance = std::fabs(Decode(dtype, &got[at]) - exact / divisor);
    if (distance > k / (1 - k) * magnitude / divisor + SmallestStep(dtype)) {
      return absl::StrCat("element ", at / element, " is ", Describe(dtype, &got[at]),
                          " and the exact sum ", static_cast<double>(exact / divisor));
    }
  }
  return "";
}

}  // namespace mp::test
