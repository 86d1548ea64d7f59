// Proves row by row what is particular about some values of a fold, on every vector target of this
// machine and at every place of a vector and of its tail: NaN, infinities, signed zeros, denormals,
// integers that wrap, and roundings that must not be merged.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "mp/dtype.h"
#include "mp/host/kernels/fold.h"
#include "tests/host/kernels/fold_oracle.h"
#include "tests/host/kernels/targets.h"

namespace mp::host {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class FoldValuesTest : public OnEveryTarget {};
MP_INSTANTIATE_ON_EVERY_TARGET(FoldValuesTest);

std::string PairName(DType dtype, ReduceOp op) {
  return std::string(DTypeName(dtype)) + " " + std::string(ReduceOpName(op));
}

// Folds one value per rank, in the midst of zeros at every place of a vector and of its tail, and
// returns the result, which must be the same everywhere and leave the neighbours zero.
double FoldOneValue(DType dtype, ReduceOp op, const std::vector<double>& ranks, double scale = 1) {
  constexpr int64_t kCount = 135;
  const int64_t element = SizeOf(dtype);
  Bytes first;
  for (int64_t place = 0; place < kCount; ++place) {
    std::vector<Bytes> inputs;
    std::vector<const void*> in;
    for (const double value : ranks) {
      inputs.emplace_back(static_cast<size_t>(kCount * element), uint8_t{0});
      StoreFloat(dtype, value, inputs.back().data() + place * element);
    }
    for (const Bytes& input : inputs) in.push_back(input.data());
    Bytes output(static_cast<size_t>(kCount * element), uint8_t{0xA5});
    void* out[] = {output.data()};
    FoldFor(dtype, op)(in.data(), static_cast<int>(in.size()), out, 1, 0, kCount, {.scale = scale});
    const auto result = output.begin() + place * element;
    if (place == 0) first.assign(result, result + element);
    Bytes expected(output.size(), 0);
    std::copy(first.begin(), first.end(), expected.begin() + place * element);
    EXPECT_EQ(output, expected) << PairName(dtype, op) << " at " << place;
  }
  return LoadFloat(dtype, first.data());
}

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

TEST_P(FoldValuesTest, NaNAndInfinitiesPropagate) {
  for (const DType dtype : kFloats) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProd}) {
      EXPECT_TRUE(std::isnan(FoldOneValue(dtype, op, {1, kNaN, 3}))) << PairName(dtype, op);
      EXPECT_TRUE(std::isnan(FoldOneValue(dtype, op, {kNaN, 1, kInfinity})));
      EXPECT_TRUE(std::isnan(FoldOneValue(dtype, op, {kNaN})));
      EXPECT_EQ(FoldOneValue(dtype, op, {2, kInfinity, 3}), kInfinity);
    }
    EXPECT_TRUE(std::isnan(FoldOneValue(dtype, ReduceOp::kSum, {kInfinity, -kInfinity})));
    EXPECT_TRUE(std::isnan(FoldOneValue(dtype, ReduceOp::kSum, {kInfinity, 1}, 0)));
  }
}

TEST_P(FoldValuesTest, HalvesOverflowToInfinityOnlyAtTheEnd) {
  EXPECT_EQ(FoldOneValue(DType::kF16, ReduceOp::kSum, {65504, 65504}), kInfinity);
  EXPECT_EQ(FoldOneValue(DType::kF16, ReduceOp::kSum, {-65504, -65504}), -kInfinity);
  EXPECT_EQ(FoldOneValue(DType::kF16, ReduceOp::kSum, {65504, 65504, -65504}), 65504);
  EXPECT_EQ(FoldOneValue(DType::kF16, ReduceOp::kAvg, {65504, 65504, 65504}), 65504);
  // 2048 + 1 + 1 in f16 would stay 2048, since 2049 is none.
  EXPECT_EQ(FoldOneValue(DType::kF16, ReduceOp::kSum, {2048, 1, 1}), 2050);
  EXPECT_EQ(FoldOneValue(DType::kBF16, ReduceOp::kSum, {256, 1, 1}), 258);
}

TEST_P(FoldValuesTest, ANumberBeatsNaNInEveryOrder) {
  for (const DType dtype : kFloats) {
    std::vector<double> values = {1, kNaN, 3, 4};
    std::vector<int> order = {0, 1, 2, 3};
    do {
      std::vector<double> ranks;
      for (const int r : order) ranks.push_back(values[static_cast<size_t>(r)]);
      EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kMin, ranks), 1) << DTypeName(dtype);
      EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kMax, ranks), 4) << DTypeName(dtype);
    } while (std::next_permutation(order.begin(), order.end()));
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      EXPECT_TRUE(std::isnan(FoldOneValue(dtype, op, {kNaN, kNaN, kNaN})));
      EXPECT_EQ(FoldOneValue(dtype, op, {kNaN, kInfinity}), kInfinity);
      EXPECT_EQ(FoldOneValue(dtype, op, {-kInfinity, kNaN}), -kInfinity);
    }
  }
}

// A NaN with a sign or a payload loses as any other: the random data has many, and here are the
// extreme ones, whose bits as an integer are beyond those of the infinities.
TEST_P(FoldValuesTest, EveryNaNLoses) {
  for (const uint32_t bits : {0x7F800001u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu}) {
    for (const float number : {-std::numeric_limits<float>::infinity(), -0.0f, 1.0f,
                               std::numeric_limits<float>::infinity()}) {
      for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
        const void* in[] = {&bits, &number};
        float result = 0;
        void* out[] = {&result};
        FoldFor(DType::kF32, op)(in, 2, out, 1, 0, 1, {});
        EXPECT_EQ(result, number);
        std::swap(in[0], in[1]);
        FoldFor(DType::kF32, op)(in, 2, out, 1, 0, 1, {});
        EXPECT_EQ(result, number);
      }
    }
  }
}

TEST_P(FoldValuesTest, SignedZeros) {
  for (const DType dtype : kFloats) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax}) {
      EXPECT_TRUE(std::signbit(FoldOneValue(dtype, op, {-0.0}))) << PairName(dtype, op);
      EXPECT_TRUE(std::signbit(FoldOneValue(dtype, op, {-0.0, -0.0}))) << PairName(dtype, op);
      EXPECT_FALSE(std::signbit(FoldOneValue(dtype, op, {0.0, 0.0})));
    }
    for (const std::vector<double>& both : {std::vector{-0.0, 0.0}, std::vector{0.0, -0.0}}) {
      EXPECT_FALSE(std::signbit(FoldOneValue(dtype, ReduceOp::kSum, both)));
      EXPECT_TRUE(std::signbit(FoldOneValue(dtype, ReduceOp::kProd, both)));
      EXPECT_TRUE(std::signbit(FoldOneValue(dtype, ReduceOp::kMin, both)));
      EXPECT_FALSE(std::signbit(FoldOneValue(dtype, ReduceOp::kMax, both)));
    }
  }
}

TEST_P(FoldValuesTest, DenormalsAreKept) {
  const std::pair<DType, double> smallest[] = {{DType::kF32, 0x1p-149},
                                               {DType::kF64, 0x1p-1074},
                                               {DType::kF16, 0x1p-24},
                                               {DType::kBF16, 0x1p-133}};
  for (const auto& [dtype, tiny] : smallest) {
    EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kSum, {tiny, tiny, tiny}), 3 * tiny);
    EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kAvg, {tiny, 3 * tiny}), 2 * tiny);
    EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kProd, {tiny, 5}), 5 * tiny);
    EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kMin, {tiny, 2 * tiny}), tiny);
    EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kMax, {-tiny, -2 * tiny}), -tiny);
    EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kSum, {tiny, tiny}, 3), 6 * tiny);
  }
}

// With u the unit in the last place of 1: (1 + u)^2 rounds to 1 + 2 u and (1 + 2 u) (1 + u) to
// 1 + 3 u.  A fused multiply-add would keep u^2 of one of them.
TEST_P(FoldValuesTest, ScaledSumsRoundTwice) {
  for (const auto& [dtype, u] : {std::pair{DType::kF32, 0x1p-23}, {DType::kF64, 0x1p-52}}) {
    EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kSum, {-1 - 2 * u, 1 + u}, 1 + u), -u);
    EXPECT_EQ(FoldOneValue(dtype, ReduceOp::kSum, {1 + u, -1 - 2 * u}, 1 + u), -u);
  }
}

TEST_P(FoldValuesTest, IntegersWrap) {
  const auto fold = [](DType dtype, ReduceOp op, auto a, auto b) {
    const void* in[] = {&a, &b};
    decltype(a) result = 0;
    void* out[] = {&result};
    FoldFor(dtype, op)(in, 2, out, 1, 0, 1, {});
    return result;
  };
  EXPECT_EQ(fold(DType::kI8, ReduceOp::kSum, int8_t{120}, int8_t{100}), -36);
  EXPECT_EQ(fold(DType::kI8, ReduceOp::kProd, int8_t{-128}, int8_t{-1}), -128);
  EXPECT_EQ(fold(DType::kU8, ReduceOp::kSum, uint8_t{255}, uint8_t{2}), 1);
  EXPECT_EQ(fold(DType::kU8, ReduceOp::kProd, uint8_t{255}, uint8_t{255}), 1);
  EXPECT_EQ(fold(DType::kI32, ReduceOp::kSum, std::numeric_limits<int32_t>::max(), int32_t{1}),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(fold(DType::kI32, ReduceOp::kProd, int32_t{1 << 30}, int32_t{6}),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(fold(DType::kI64, ReduceOp::kSum, std::numeric_limits<int64_t>::min(), int64_t{-1}),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(fold(DType::kU64, ReduceOp::kProd, uint64_t{1} << 63, uint64_t{3}), uint64_t{1} << 63);
}

}  // namespace
}  // namespace mp::host
