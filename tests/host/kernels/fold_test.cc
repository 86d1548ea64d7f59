// Proves the folds bit for bit against their definition (fold_oracle.h), on every vector target of
// this machine: every defined pair of type and operation, 1 to 8 ranks, sizes around every
// vector's, at every byte offset, in and out of place, ordinary and streaming, whole and sliced.
// Outputs are poisoned first, every element is compared, guard bytes must stay, and inputs that
// are no outputs too.  At last the rounding to 16 bits of every pattern.  What is particular about
// some values is in fold_values_test.cc.
#include "mp/host/kernels/fold.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "mp/dtype.h"
#include "tests/host/kernels/fold_oracle.h"
#include "tests/host/kernels/guarded.h"
#include "tests/host/kernels/targets.h"

namespace mp::host {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int64_t kSizes[] = {0,  1,  2,  3,   7,   8,   9,    15,   16,   17,   31,   32,  33,
                              63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097};
constexpr int kRankCounts[] = {1, 2, 3, 5, 7, 8};

std::vector<std::pair<DType, ReduceOp>> DefinedPairs() {
  std::vector<std::pair<DType, ReduceOp>> pairs;
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      if (FoldFor(dtype, op) != nullptr) pairs.emplace_back(dtype, op);
    }
  }
  return pairs;
}

std::string PairName(DType dtype, ReduceOp op) {
  return std::string(DTypeName(dtype)) + " " + std::string(ReduceOpName(op));
}

enum class Data {
  kBits,     // any pattern: NaN, infinities and denormals among them
  kNumbers,  // of like size, so that every sum is rounded and the order shows
};

std::vector<Bytes> RandomInputs(DType dtype, int n, int64_t count, Data data, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Bytes> inputs(static_cast<size_t>(n));
  for (Bytes& input : inputs) {
    input.resize(static_cast<size_t>(count * SizeOf(dtype)));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random());
    if (data == Data::kBits || !IsReducibleFloat(dtype)) continue;
    for (int64_t i = 0; i < count; ++i) {
      const double fraction = std::ldexp(static_cast<double>(random()), -31) - 1;
      const double value = std::ldexp(fraction, static_cast<int>(random() % 6) - 3);
      StoreFloat(dtype, value, input.data() + i * SizeOf(dtype));
    }
  }
  return inputs;
}

enum class Layout { kOutOfPlace, kInPlace, kReversedInPlace, kOneOutput, kOneInPlace, kAlignedOut };
constexpr int kLayoutCount = 6;

// Folds the first `size` elements of the inputs, laid out at byte offsets that begin with
// `offset`, and compares everything with the first `size` of `expected`.
void CheckFold(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs, const Bytes& expected,
               int64_t size, int64_t offset, Layout layout, const FoldOptions& options) {
  const int n = static_cast<int>(inputs.size());
  const int64_t size_bytes = size * SizeOf(dtype);
  std::vector<Guarded> sources;
  std::vector<Guarded> targets;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (int r = 0; r < n; ++r) {
    sources.emplace_back(size_bytes, (offset + 5 * r) % 16);
    sources.back().Fill(inputs[static_cast<size_t>(r)].data());
    in.push_back(sources.back().data());
  }
  const bool in_place = layout == Layout::kInPlace || layout == Layout::kReversedInPlace ||
                        layout == Layout::kOneInPlace;
  const int m = layout == Layout::kOneOutput || layout == Layout::kOneInPlace ? 1 : n;
  for (int k = 0; k < m; ++k) {
    if (in_place) {
      out.push_back(
          sources[static_cast<size_t>(layout == Layout::kInPlace ? k : n - 1 - k)].data());
    } else {
      targets.emplace_back(size_bytes,
                           layout == Layout::kAlignedOut ? offset : (offset + 3 + 7 * k) % 16);
      out.push_back(targets.back().data());
    }
  }

  FoldFor(dtype, op)(in.data(), n, out.data(), m, 0, size, options);

  const std::string what = PairName(dtype, op) + ", " + std::to_string(n) + " ranks, size " +
                           std::to_string(size) + ", offset " + std::to_string(offset) +
                           ", layout " + std::to_string(static_cast<int>(layout));
  for (size_t r = 0; r < sources.size(); ++r) {
    const bool is_output = std::count(out.begin(), out.end(), sources[r].data()) > 0;
    ASSERT_TRUE(sources[r].Holds(is_output ? expected.data() : inputs[r].data())) << what;
    ASSERT_TRUE(sources[r].GuardsAreIntact()) << what;
  }
  for (const Guarded& target : targets) {
    ASSERT_TRUE(target.Holds(expected.data())) << what;
    ASSERT_TRUE(target.GuardsAreIntact()) << what;
  }
}

class FoldTest : public OnEveryTarget {};
MP_INSTANTIATE_ON_EVERY_TARGET(FoldTest);

TEST_P(FoldTest, EverySizeOffsetAndLayout) {
  uint32_t turn = 0;
  for (const auto& [dtype, op] : DefinedPairs()) {
    for (const int n : kRankCounts) {
      const Data data = (n + static_cast<int>(op)) % 2 == 0 ? Data::kBits : Data::kNumbers;
      const std::vector<Bytes> inputs = RandomInputs(dtype, n, 4097, data, turn);
      const Bytes expected = FoldByDefinition(dtype, op, inputs);
      for (const int64_t size : kSizes) {
        const int64_t stride = size > 65 ? 5 : 1;
        for (int64_t offset = turn % stride; offset < 16; offset += stride, ++turn) {
          CheckFold(dtype, op, inputs, expected, size, offset,
                    static_cast<Layout>(turn % kLayoutCount), {.streaming = turn % 4 < 2});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// An output's whole cache lines at the same place, which is what streaming stores want.
TEST_P(FoldTest, Streaming) {
  for (const auto& [dtype, op] : DefinedPairs()) {
    const std::vector<Bytes> inputs = RandomInputs(dtype, 3, 4097, Data::kBits, 7);
    const Bytes expected = FoldByDefinition(dtype, op, inputs);
    for (const int64_t size : {255, 1025, 4097}) {
      for (int64_t offset = 0; offset < 16; ++offset) {
        CheckFold(dtype, op, inputs, expected, size, offset, Layout::kAlignedOut,
                  {.streaming = true});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(FoldTest, BothKindsOfDataAndScales) {
  for (const auto& [dtype, op] : DefinedPairs()) {
    if (!IsReducibleFloat(dtype)) continue;
    for (const Data data : {Data::kBits, Data::kNumbers}) {
      for (const double scale : {1.0, 0.5, 1.0 / 3, -7.25, 0x1p-20, 1e5, 0.0}) {
        for (const int n : {1, 2, 4, 7, 33}) {
          const std::vector<Bytes> inputs = RandomInputs(dtype, n, 257, data, 11);
          const Bytes expected = FoldByDefinition(dtype, op, inputs, scale);
          CheckFold(dtype, op, inputs, expected, 257, n % 16, Layout::kOutOfPlace,
                    {.scale = scale});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(FoldTest, IntegersIgnoreTheScale) {
  const std::vector<Bytes> inputs = RandomInputs(DType::kI32, 2, 33, Data::kBits, 1);
  CheckFold(DType::kI32, ReduceOp::kSum, inputs,
            FoldByDefinition(DType::kI32, ReduceOp::kSum, inputs), 33, 0, Layout::kInPlace,
            {.scale = 3});
}

TEST_P(FoldTest, SlicesGiveTheBitsOfTheWhole) {
  constexpr int64_t kCount = 1500;
  std::mt19937 random(3);
  for (const auto& [dtype, op] : DefinedPairs()) {
    for (const int n : {2, 3, 8}) {
      const std::vector<Bytes> inputs =
          RandomInputs(dtype, n, kCount, Data::kBits, static_cast<uint32_t>(random()));
      const Bytes expected = FoldByDefinition(dtype, op, inputs);
      for (const int64_t longest : {5, 70, 700}) {
        std::vector<Guarded> buffers;
        std::vector<const void*> in;
        std::vector<void*> out;
        for (const Bytes& input : inputs) {
          buffers.emplace_back(static_cast<int64_t>(input.size()), 16);
          buffers.back().Fill(input.data());
          in.push_back(buffers.back().data());
          out.push_back(buffers.back().data());
        }
        for (int64_t begin = 0; begin < kCount;) {
          const int64_t count =
              std::min(static_cast<int64_t>(random()) % longest + 1, kCount - begin);
          FoldFor(dtype, op)(in.data(), n, out.data(), n, begin, count, {});
          begin += count;
        }
        for (const Guarded& buffer : buffers) {
          ASSERT_TRUE(buffer.Holds(expected.data())) << PairName(dtype, op) << " by " << longest;
          ASSERT_TRUE(buffer.GuardsAreIntact());
        }
      }
    }
  }
}

TEST_P(FoldTest, ABeginTouchesNothingBeforeIt) {
  const std::vector<Bytes> inputs = RandomInputs(DType::kF32, 2, 100, Data::kNumbers, 5);
  Bytes expected = FoldByDefinition(DType::kF32, ReduceOp::kSum, inputs);
  Guarded target(400, 4);
  const void* in[] = {inputs[0].data(), inputs[1].data()};
  void* out[] = {target.data()};
  FoldFor(DType::kF32, ReduceOp::kSum)(in, 2, out, 1, 41, 17, {});
  std::fill(expected.begin(), expected.begin() + 41 * 4, Guarded::kPoison);
  std::fill(expected.begin() + 58 * 4, expected.end(), Guarded::kPoison);
  EXPECT_TRUE(target.Holds(expected.data()));
}

TEST_P(FoldTest, NoOutputs) {
  const float value[400] = {};
  const void* in[] = {value, value};
  FoldFor(DType::kF32, ReduceOp::kSum)(in, 2, nullptr, 0, 0, 400, {.streaming = true});
}

// Every 16-bit pattern once, scaled so that its f32 lies between two of 16 bits: on a midpoint of
// denormals (0.5), anywhere (1/3), beyond the range (1e3), or just where it was.
TEST_P(FoldTest, EveryHalfRoundsToNearestEven) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<Bytes> inputs(1);
    for (int i = 0; i < 0x10000; ++i) {
      inputs[0].push_back(static_cast<uint8_t>(i % 256));
      inputs[0].push_back(static_cast<uint8_t>(i / 256));
    }
    for (const double scale : {1.0, 0.5, 0.25, 1.0 / 3, 1 + 0x1p-9, 1 + 0x1p-12, 1e3, 0x1p-10}) {
      const Bytes expected = FoldByDefinition(dtype, ReduceOp::kSum, inputs, scale);
      CheckFold(dtype, ReduceOp::kSum, inputs, expected, 0x10000, 0, Layout::kOutOfPlace,
                {.scale = scale});
    }
  }
}

// x plus half a unit in its last place lies between x and its neighbour; a third rank nudges it
// to one side.
TEST_P(FoldTest, MidpointsOfHalvesRoundToEven) {
  const std::pair<DType, Format16> formats[] = {{DType::kF16, kFormatF16},
                                                {DType::kBF16, kFormatBF16}};
  for (const auto& [dtype, format] : formats) {
    for (const double nudge : {0.0, 1.0, -1.0}) {
      std::vector<Bytes> inputs(3);
      for (int i = 0; i < 0x10000; ++i) {
        uint8_t bytes[3][2];
        const double x = Decode16(format, static_cast<uint16_t>(i));
        const double unit =
            std::isfinite(x) && x != 0 ? std::ldexp(x, -format.mantissa_bits - 1) : 0;
        const double half_unit = std::copysign(std::ldexp(1, unit == 0 ? 0 : std::ilogb(unit)), x);
        StoreFloat(dtype, x, bytes[0]);
        StoreFloat(dtype, half_unit, bytes[1]);
        StoreFloat(dtype, nudge * std::ldexp(half_unit, -8), bytes[2]);
        for (size_t r = 0; r < 3; ++r) {
          inputs[r].insert(inputs[r].end(), bytes[r], bytes[r] + 2);
        }
      }
      const Bytes expected = FoldByDefinition(dtype, ReduceOp::kSum, inputs);
      CheckFold(dtype, ReduceOp::kSum, inputs, expected, 0x10000, 2, Layout::kOutOfPlace, {});
    }
  }
}

TEST(FoldForTest, PairsThatAreNotDefined) {
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      const bool defined = IsReducible(dtype) && (op != ReduceOp::kAvg || IsReducibleFloat(dtype));
      EXPECT_EQ(FoldFor(dtype, op) != nullptr, defined) << PairName(dtype, op);
    }
  }
}

// Else the suite above would test one target many times.
TEST(FoldForTest, EveryTargetHasItsOwnFolds) {
  std::set<FoldFn> folds;
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (const auto& [dtype, op] : DefinedPairs()) {
      if (dtype == DType::kF32) folds.insert(FoldFor(dtype, op));
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_EQ(folds.size(), 5 * targets.size());
}

}  // namespace
}  // namespace mp::host
