#include "tests/fake/fold.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mp::fake {
namespace {

// Integers wrap, so they are added as unsigned ones; small ones also must not become int.
template <typename T>
T Apply(T a, T b, ncclRedOp_t op) {
  if (op == ncclMin) return std::min(a, b);
  if (op == ncclMax) return std::max(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    return op == ncclSum ? a + b : a * b;
  } else {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(op == ncclSum ? x + y : x * y);
  }
}

template <typename T>
void Fold(char* total, const char* input, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    T a;
    T b;
    std::memcpy(&a, total + i * sizeof(T), sizeof(T));
    std::memcpy(&b, input + i * sizeof(T), sizeof(T));
    a = Apply(a, b, op);
    std::memcpy(total + i * sizeof(T), &a, sizeof(T));
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
  const bool small_float = type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat8e4m3 ||
                           type == ncclFloat8e5m2;
  return !small_float && (op == ncclSum || op == ncclProd || op == ncclMin || op == ncclMax);
}

void FoldInto(char* total, const char* input, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclFloat64:
      return Fold<double>(total, input, count, op);
    case ncclFloat32:
      return Fold<float>(total, input, count, op);
    case ncclInt64:
      return Fold<int64_t>(total, input, count, op);
    case ncclUint64:
      return Fold<uint64_t>(total, input, count, op);
    case ncclInt32:
      return Fold<int32_t>(total, input, count, op);
    case ncclUint32:
      return Fold<uint32_t>(total, input, count, op);
    case ncclInt8:
      return Fold<int8_t>(total, input, count, op);
    case ncclUint8:
      return Fold<uint8_t>(total, input, count, op);
    default:
      return;
  }
}

}  // namespace mp::fake
