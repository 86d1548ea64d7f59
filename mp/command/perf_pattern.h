// Inputs for measured operations whose results are exact in any order of adding, and the check of
// every element of a result.
#ifndef MP_COMMAND_PERF_PATTERN_H_
#define MP_COMMAND_PERF_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "mp/dtype.h"

namespace mp::command {

using Bytes = std::vector<std::byte>;

// What rank `rank` brings to a reduction: small whole numbers, for products 1 and 2.
Bytes ReductionInput(DType dtype, ReduceOp op, int64_t count, int rank);
// Sum, product, minimum or maximum of those of all ranks, up to 85 of them (16-bit types hold whole
// numbers up to 256 exactly); of products up to 15.
Bytes ReductionResult(DType dtype, ReduceOp op, int64_t count, int ranks);

// A shard of `rows` rows of `row_bytes`: bytes that tell rank, row and column apart.
Bytes GatherInput(int64_t rows, int64_t row_bytes, int rank);
// The shards side by side.
Bytes GatherResult(int64_t rows, absl::Span<const int64_t> row_bytes);

// How many elements differ.
int64_t CountWrong(absl::Span<const std::byte> seen, absl::Span<const std::byte> expected,
                   DType dtype);

}  // namespace mp::command

#endif  // MP_COMMAND_PERF_PATTERN_H_
