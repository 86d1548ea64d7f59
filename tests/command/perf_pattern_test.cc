// The inputs of measured operations, their results in closed form, and the count of wrong elements.
#include "mp/command/perf_pattern.h"

#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mp/base/float16.h"

namespace mp::command {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<T> As(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(ReductionInput, IsSmallWholeNumbersOfEachType) {
  EXPECT_THAT(As<float>(ReductionInput(DType::kF32, ReduceOp::kSum, 5, 0)),
              ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(As<double>(ReductionInput(DType::kF64, ReduceOp::kMax, 5, 1)),
              ElementsAre(3, 0, 1, 2, 3));
  EXPECT_THAT(As<uint8_t>(ReductionInput(DType::kI8, ReduceOp::kSum, 5, 2)),
              ElementsAre(2, 3, 0, 1, 2));
  EXPECT_THAT(As<int32_t>(ReductionInput(DType::kI32, ReduceOp::kProd, 5, 1)),
              ElementsAre(2, 1, 2, 1, 2));
  EXPECT_THAT(As<int64_t>(ReductionInput(DType::kU64, ReduceOp::kSum, 2, 0)), ElementsAre(0, 1));
  EXPECT_THAT(As<uint16_t>(ReductionInput(DType::kF16, ReduceOp::kSum, 2, 0)),
              ElementsAre(F32ToF16(0), F32ToF16(1)));
  EXPECT_THAT(As<uint16_t>(ReductionInput(DType::kBF16, ReduceOp::kSum, 2, 3)),
              ElementsAre(F32ToBF16(1), F32ToBF16(2)));
}

TEST(ReductionResult, IsTheirSumProductMinimumOrMaximum) {
  EXPECT_THAT(As<float>(ReductionResult(DType::kF32, ReduceOp::kSum, 4, 2)),
              ElementsAre(0 + 3, 1 + 0, 2 + 1, 3 + 2));
  EXPECT_THAT(As<float>(ReductionResult(DType::kF32, ReduceOp::kMin, 4, 2)),
              ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(As<float>(ReductionResult(DType::kF32, ReduceOp::kMax, 4, 2)),
              ElementsAre(3, 1, 2, 3));
  EXPECT_THAT(As<float>(ReductionResult(DType::kF32, ReduceOp::kProd, 2, 3)),
              ElementsAre(1 * 2 * 1, 2 * 1 * 2));
  // 64 ranks hold each of 0, 1, 2 and 3 sixteen times.
  EXPECT_THAT(As<uint16_t>(ReductionResult(DType::kBF16, ReduceOp::kSum, 2, 64)),
              ElementsAre(F32ToBF16(96), F32ToBF16(96)));
}

TEST(GatherResult, HasTheShardsSideBySide) {
  const Bytes first = GatherInput(2, 3, 0);
  const Bytes second = GatherInput(2, 1, 1);
  const Bytes expected = {first[0], first[1], first[2], second[0],
                          first[3], first[4], first[5], second[1]};
  EXPECT_EQ(GatherResult(2, {3, 1}), expected);
  EXPECT_NE(first[0], second[0]);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[0], first[3]);
}

TEST(CountWrong, CountsElementsNotBytes) {
  const Bytes right = ReductionInput(DType::kF32, ReduceOp::kSum, 10, 0);
  Bytes seen = right;
  EXPECT_EQ(CountWrong(seen, right, DType::kF32), 0);
  seen[4] ^= std::byte{1};
  seen[7] ^= std::byte{1};
  seen[39] ^= std::byte{128};
  EXPECT_EQ(CountWrong(seen, right, DType::kF32), 2);
  EXPECT_EQ(CountWrong(seen, right, DType::kU8), 3);
}

}  // namespace
}  // namespace mp::command
