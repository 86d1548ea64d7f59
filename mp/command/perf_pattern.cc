#include "mp/command/perf_pattern.h"

#include <algorithm>
#include <cstring>

#include "mp/base/check.h"
#include "mp/base/float16.h"

namespace mp::command {
namespace {

template <typename T>
void Put(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(value));
}

void PutNumber(DType dtype, int value, std::byte* to) {
  switch (dtype) {
    case DType::kF64:
      return Put(static_cast<double>(value), to);
    case DType::kF32:
      return Put(static_cast<float>(value), to);
    case DType::kF16:
      return Put(F32ToF16(static_cast<float>(value)), to);
    case DType::kBF16:
      return Put(F32ToBF16(static_cast<float>(value)), to);
    case DType::kI8:
    case DType::kU8:
      return Put(static_cast<uint8_t>(value), to);
    case DType::kI32:
    case DType::kU32:
      return Put(static_cast<uint32_t>(value), to);
    default:
      MP_CHECK(dtype == DType::kI64 || dtype == DType::kU64);
      return Put(static_cast<int64_t>(value), to);
  }
}

int NumberAt(ReduceOp op, int64_t i, int rank) {
  const auto turn = static_cast<int>((5 * i + 3 * rank) % 4);
  return op == ReduceOp::kProd ? 1 + turn % 2 : turn;
}

int Join(ReduceOp op, int a, int b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    default:
      return a + b;
  }
}

std::byte ByteAt(int rank, int64_t row, int64_t column) {
  return static_cast<std::byte>(31 * rank + 7 * row + column + column / 251);
}

}  // namespace

Bytes ReductionInput(DType dtype, ReduceOp op, int64_t count, int rank) {
  Bytes bytes(static_cast<size_t>(count * SizeOf(dtype)));
  for (int64_t i = 0; i < count; ++i) {
    PutNumber(dtype, NumberAt(op, i, rank), bytes.data() + i * SizeOf(dtype));
  }
  return bytes;
}

Bytes ReductionResult(DType dtype, ReduceOp op, int64_t count, int ranks) {
  Bytes bytes(static_cast<size_t>(count * SizeOf(dtype)));
  for (int64_t i = 0; i < count; ++i) {
    int value = NumberAt(op, i, 0);
    for (int rank = 1; rank < ranks; ++rank) value = Join(op, value, NumberAt(op, i, rank));
    PutNumber(dtype, value, bytes.data() + i * SizeOf(dtype));
  }
  return bytes;
}

Bytes GatherInput(int64_t rows, int64_t row_bytes, int rank) {
  Bytes bytes;
  bytes.reserve(static_cast<size_t>(rows * row_bytes));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < row_bytes; ++column) {
      bytes.push_back(ByteAt(rank, row, column));
    }
  }
  return bytes;
}

Bytes GatherResult(int64_t rows, absl::Span<const int64_t> row_bytes) {
  Bytes bytes;
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t rank = 0; rank < row_bytes.size(); ++rank) {
      for (int64_t column = 0; column < row_bytes[rank]; ++column) {
        bytes.push_back(ByteAt(static_cast<int>(rank), row, column));
      }
    }
  }
  return bytes;
}

int64_t CountWrong(absl::Span<const std::byte> seen, absl::Span<const std::byte> expected,
                   DType dtype) {
  MP_CHECK(seen.size() == expected.size());
  const auto size = static_cast<size_t>(SizeOf(dtype));
  int64_t wrong = 0;
  for (size_t at = 0; at < seen.size(); at += size) {
    if (std::memcmp(seen.data() + at, expected.data() + at, size) != 0) ++wrong;
  }
  return wrong;
}

}  // namespace mp::command
