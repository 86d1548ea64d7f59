#include "tests/fake/fold.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mp/base/float16.h"

namespace mp::fake {
namespace {

template <typename T>
bool Less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
    if (a == b) return std::signbit(a) && !std::signbit(b);
  }
  return a < b;
}

template <typename T>
T Greater(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
  }
  return Less(a, b) ? b : a;
}

// Integers wrap, so they are added as unsigned ones; small ones also must not become int.
template <typename T>
T Apply(T a, T b, ncclRedOp_t op) {
  if (op == ncclMin) return Less(b, a) ? b : a;
  if (op == ncclMax) return Greater(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    return op == ncclSum ? a + b : a * b;
  } else {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(op == ncclSum ? x + y : x * y);
  }
}

// How a type lies in memory and what it is folded in.
template <typename T>
struct Plain {
  using Stored = T;
  static T Load(T stored) { return stored; }
  static T Store(T value) { return value; }
};
struct Half {
  using Stored = uint16_t;
  static float Load(uint16_t stored) { return F16ToF32(stored); }
  static uint16_t Store(float value) { return F32ToF16(value); }
};
struct BHalf {
  using Stored = uint16_t;
  static float Load(uint16_t stored) { return BF16ToF32(stored); }
  static uint16_t Store(float value) { return F32ToBF16(value); }
};

template <typename Format>
auto Load(const char* data, size_t i) {
  typename Format::Stored stored;
  std::memcpy(&stored, data + i * sizeof stored, sizeof stored);
  return stored;
}

template <typename Format>
auto Term(const Operand& operand, size_t i) {
  auto value = Format::Load(Load<Format>(operand.data, i));
  if constexpr (std::is_floating_point_v<decltype(value)>) {
    if (operand.scale != 1) {
      value = Format::Load(Format::Store(value * static_cast<decltype(value)>(operand.scale)));
    }
  }
  return value;
}

template <typename Format>
void FoldAs(char* result, const std::vector<Operand>& operands, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    auto total = Term<Format>(operands[0], i);
    for (size_t k = 1; k < operands.size(); ++k) {
      total = Apply(total, Term<Format>(operands[k], i), op);
    }
    const typename Format::Stored stored = Format::Store(total);
    std::memcpy(result + i * sizeof stored, &stored, sizeof stored);
  }
}

}  // namespace

size_t SizeOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

bool IsModelled(ncclDataType_t type, ncclRedOp_t op) {
  const bool tiny = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
  return !tiny && (op == ncclSum || op == ncclProd || op == ncclMin || op == ncclMax);
}

void Fold(char* result, const std::vector<Operand>& operands, size_t count, ncclDataType_t type,
          ncclRedOp_t op) {
  switch (type) {
    case ncclFloat64:
      return FoldAs<Plain<double>>(result, operands, count, op);
    case ncclFloat32:
      return FoldAs<Plain<float>>(result, operands, count, op);
    case ncclFloat16:
      return FoldAs<Half>(result, operands, count, op);
    case ncclBfloat16:
      return FoldAs<BHalf>(result, operands, count, op);
    case ncclInt64:
      return FoldAs<Plain<int64_t>>(result, operands, count, op);
    case ncclUint64:
      return FoldAs<Plain<uint64_t>>(result, operands, count, op);
    case ncclInt32:
      return FoldAs<Plain<int32_t>>(result, operands, count, op);
    case ncclUint32:
      return FoldAs<Plain<uint32_t>>(result, operands, count, op);
    case ncclInt8:
      return FoldAs<Plain<int8_t>>(result, operands, count, op);
    case ncclUint8:
      return FoldAs<Plain<uint8_t>>(result, operands, count, op);
    default:
      return;
  }
}

double Decode(const void* data, ncclDataType_t type) {
  const auto* bytes = static_cast<const char*>(data);
  switch (type) {
    case ncclFloat64:
      return Load<Plain<double>>(bytes, 0);
    case ncclFloat16:
      return F16ToF32(Load<Half>(bytes, 0));
    case ncclBfloat16:
      return BF16ToF32(Load<BHalf>(bytes, 0));
    default:
      return Load<Plain<float>>(bytes, 0);
  }
}

}  // namespace mp::fake
