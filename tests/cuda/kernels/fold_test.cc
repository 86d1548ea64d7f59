// Proves the fold's kernel bit by bit against the host's fold, on the grid that interleaves blocks
// and threads: every defined pair of type and operation, 1 to kMostRanks ranks, sizes around
// vectors and blocks, pointers at every element of a vector, alike and not, in and out of place,
// parts of a range, few blocks and many, special values, scaled.  Outputs are poisoned first, every
// byte is compared, guard bytes and inputs that are no outputs must stay.
#include "mp/cuda/kernels/fold.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "mp/base/float16.h"
#include "mp/cuda/kernels/fold-inl.h"
#include "mp/dtype.h"
#include "mp/host/kernels/fold.h"
#include "tests/cuda/kernels/guarded.h"
#include "tests/fake/kernels/interleaved.h"

namespace mp::cuda {
namespace {

using Bytes = std::vector<uint8_t>;
using Pair = std::pair<DType, ReduceOp>;

std::vector<Pair> DefinedPairs() {
  std::vector<Pair> pairs;
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const Pair pair = {static_cast<DType>(d), static_cast<ReduceOp>(o)};
      if (host::FoldFor(pair.first, pair.second) != nullptr) pairs.push_back(pair);
    }
  }
  return pairs;
}

std::string PairName(const ::testing::TestParamInfo<Pair>& info) {
  return std::string(DTypeName(info.param.first)) + "_" +
         std::string(ReduceOpName(info.param.second));
}

// The element of `dtype` nearest to `value`.
void Append(DType dtype, double value, Bytes& bytes) {
  const auto append = [&bytes](auto element) {
    const auto* from = reinterpret_cast<const uint8_t*>(&element);
    bytes.insert(bytes.end(), from, from + sizeof(element));
  };
  const auto single = static_cast<float>(value);
  if (dtype == DType::kF64) append(value);
  if (dtype == DType::kF32) append(single);
  if (dtype == DType::kF16) append(F32ToF16(single));
  if (dtype == DType::kBF16) append(F32ToBF16(single));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Many pairs of them are particular: infinities that cancel, zeros of both signs, denormals of each
// type, what overflows when it is added.
constexpr double kSpecialValues[] = {kNaN,     -kNaN,     kInfinity, -kInfinity, 0.0,       -0.0,
                                     1.0,      -1.0,      0x1p-149,  -0x1p-149,  0x1p-1074, 0x1p-24,
                                     -0x1p-24, 0x1p-133,  65504,     -65504,     3.4e38,    -3.4e38,
                                     1.7e308,  -1.7e308,  2048,      1.0 / 3,    0x1p-126,  0x1p-14,
                                     0x1p-25,  0x1.8p-25, 0x1p-1022, 0x1.8p-24};

enum class Data { kBits, kNumbers, kSpecial };

// `count` elements.
Bytes RandomInput(DType dtype, int64_t count, Data data, std::mt19937_64& random) {
  Bytes input;
  const auto size = static_cast<size_t>(count * SizeOf(dtype));
  while (input.size() < size) {
    if (data == Data::kBits || !IsReducibleFloat(dtype)) {
      input.push_back(static_cast<uint8_t>(random()));
    } else if (data == Data::kNumbers) {  // of like size, so that sums are rounded
      Append(dtype, std::ldexp(static_cast<double>(random() >> 11), -52) - 1, input);
    } else {
      Append(dtype, kSpecialValues[random() % std::size(kSpecialValues)], input);
    }
  }
  return input;
}

enum class Layout { kOutOfPlace, kInPlace, kReversedInPlace, kOneOutput, kOneInPlace };
constexpr int kLayouts = 5;

struct Case {
  int n = 1;
  int64_t size = 0;
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<int64_t> offsets = {0};  // in elements; buffers take them in turn
  Layout layout = Layout::kOutOfPlace;
  Data data = Data::kBits;
  double scale = 1;
  int most_blocks = 1024;
  uint64_t seed = 1;

  std::string Describe() const {
    std::string text = std::to_string(n) + " ranks, [" + std::to_string(begin) + ", " +
                       std::to_string(end) + ") of " + std::to_string(size) + ", layout " +
                       std::to_string(static_cast<int>(layout)) + ", scale " +
                       std::to_string(scale) + ", blocks " + std::to_string(most_blocks) +
                       ", seed " + std::to_string(seed) + ", offsets";
    for (const int64_t offset : offsets) text += " " + std::to_string(offset);
    return text;
  }
};

class FoldTest : public ::testing::TestWithParam<Pair> {
 protected:
  DType dtype() const { return GetParam().first; }
  ReduceOp op() const { return GetParam().second; }

  Guarded Memory(const Case& it, size_t index) const {
    const int64_t offset = it.offsets[index % it.offsets.size()];
    return Guarded(static_cast<size_t>(it.size * SizeOf(dtype())),
                   static_cast<size_t>(offset * SizeOf(dtype())));
  }

  // All that the case's buffers hold after it, by the kernel or by the host's fold.
  std::vector<Bytes> Result(const Case& it, bool on_grid) const {
    std::mt19937_64 random(it.seed);
    const auto n = static_cast<size_t>(it.n);
    std::vector<Guarded> buffers;
    Fold fold = {.dtype = dtype(), .op = op(), .input_count = it.n};
    for (size_t r = 0; r < n; ++r) {
      buffers.push_back(Memory(it, r));
      buffers.back().Fill(RandomInput(dtype(), it.size, it.data, random));
      fold.inputs[r] = buffers.back().data();
    }
    const bool one = it.layout == Layout::kOneOutput || it.layout == Layout::kOneInPlace;
    fold.output_count = one ? 1 : it.n;
    for (size_t k = 0; k < static_cast<size_t>(fold.output_count); ++k) {
      if (it.layout == Layout::kInPlace || it.layout == Layout::kOneInPlace) {
        fold.outputs[k] = buffers[k].data();
      } else if (it.layout == Layout::kReversedInPlace) {
        fold.outputs[k] = buffers[n - 1 - k].data();
      } else {
        buffers.push_back(Memory(it, n + k));
        fold.outputs[k] = buffers.back().data();
      }
    }
    fold.begin = it.begin;
    fold.end = it.end;
    fold.scale = it.scale;
    fold.most_blocks = it.most_blocks;
    if (on_grid) {
      EXPECT_EQ(LaunchFoldBy(fold, fake::Interleaved{it.seed}), cudaSuccess);
    } else {
      host::FoldFor(dtype(), op())(fold.inputs, it.n, fold.outputs, fold.output_count, it.begin,
                                   it.end - it.begin, {.scale = it.scale});
    }
    std::vector<Bytes> result;
    for (const Guarded& buffer : buffers) {
      EXPECT_TRUE(buffer.GuardsAreIntact()) << it.Describe();
      result.push_back(buffer.bytes());
    }
    return result;
  }

  void Check(const Case& it) const {
    const bool equal = Result(it, true) == Result(it, false);
    ASSERT_TRUE(equal) << it.Describe();
  }
};

INSTANTIATE_TEST_SUITE_P(Pairs, FoldTest, ::testing::ValuesIn(DefinedPairs()), PairName);

// Where the indices go depends on nothing but the size of an element: a pair for each.
class FoldIndexTest : public FoldTest {};
INSTANTIATE_TEST_SUITE_P(Sizes, FoldIndexTest,
                         ::testing::Values(Pair{DType::kU8, ReduceOp::kSum},
                                           Pair{DType::kBF16, ReduceOp::kAvg},
                                           Pair{DType::kF32, ReduceOp::kSum},
                                           Pair{DType::kI64, ReduceOp::kProd}),
                         PairName);

constexpr int kRankCounts[] = {1, 2, 3, 5, 8, kMostRanks};

// For every pair, one of so many cases.
constexpr int kThinned = 7;  // has no factor in common with what chooses layouts and data

// With equal offsets whole vectors fit, and the head is as long as the offset says; with others
// every element goes by itself.  Takes each `step`-th case.
template <class Visit>
void VisitSizesAndOffsets(int64_t lanes, uint64_t step, Visit visit) {
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 255, 257, 1023};
  uint64_t turn = 0;
  for (const int n : kRankCounts) {
    for (const int64_t size : kSizes) {
      const int64_t offset_step = size > 64 ? 5 : 1;
      for (int64_t offset = 0; offset < lanes; offset += offset_step) {
        ++turn;
        if ((n > 3 && turn % 3 != 0) || (n > 8 && turn % 12 != 0) || turn / 3 % step != 0) continue;
        Case it = {.n = n, .size = size, .end = size, .seed = turn};
        it.offsets = {offset};
        if (turn % 4 == 0) it.offsets.push_back((offset + 1) % lanes);
        it.layout = static_cast<Layout>(turn % kLayouts);
        it.data = turn % 2 == 0 ? Data::kBits : Data::kNumbers;
        visit(it);
      }
    }
  }
}

TEST_P(FoldIndexTest, SizesAndOffsets) {
  VisitSizesAndOffsets(kVectorBytes / SizeOf(dtype()), 1, [this](const Case& it) {
    if (!HasFatalFailure()) Check(it);
  });
}

TEST_P(FoldTest, SizesAndOffsets) {
  VisitSizesAndOffsets(kVectorBytes / SizeOf(dtype()), kThinned, [this](const Case& it) {
    if (!HasFatalFailure()) Check(it);
  });
}

// More elements than the blocks have threads, so that every thread takes several.
TEST_P(FoldIndexTest, ThreadsGoOn) {
  const int64_t lanes = kVectorBytes / SizeOf(dtype());
  uint64_t turn = 0;
  for (const int n : {2, 5, kMostRanks}) {
    for (const int most_blocks : {1, 2, 1024}) {
      for (const int64_t over : {-1, 0, 1}) {
        ++turn;
        const int64_t size = kFoldThreads * lanes * std::min(most_blocks, 3) + over;
        Case it = {.n = n, .size = size, .end = size, .most_blocks = most_blocks, .seed = turn};
        it.layout = turn % 2 == 0 ? Layout::kInPlace : Layout::kOutOfPlace;
        Check(it);
        it.size = it.end = kFoldThreads * most_blocks % 700 + 2 * over + 2;
        it.offsets = {0, 1 % lanes};
        Check(it);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A shot of a two-shot is a part of the range: the rest stays as it is.
TEST_P(FoldIndexTest, PartsOfTheRange) {
  constexpr int64_t kSize = 300;
  uint64_t turn = 0;
  for (const int n : {1, 3, 8}) {
    for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 300}, {0, 1}, {299, 300}, {1, 299}, {7, 23}, {16, 32}, {100, 100}, {13, 290}}) {
      for (const int64_t offset : {0, 1}) {
        ++turn;
        Case it = {.n = n, .size = kSize, .begin = begin, .end = end, .seed = turn};
        it.offsets = {offset % (kVectorBytes / SizeOf(dtype()))};
        it.layout = static_cast<Layout>(turn % kLayouts);
        Check(it);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(FoldTest, SpecialValuesScaledAndNot) {
  constexpr double kScales[] = {1, 0.5, 1.0 / 3, -2, 0, 1e-40, 1e30, kNaN, kInfinity};
  uint64_t seed = 0;
  for (const int n : {1, 2, 3, 8}) {
    for (const double scale : kScales) {
      for (const Data data : {Data::kSpecial, Data::kNumbers}) {
        if (!IsReducibleFloat(dtype()) && (data == Data::kSpecial || scale > 1)) continue;
        Case it = {.n = n, .size = 301, .end = 301, .data = data, .scale = scale, .seed = ++seed};
        it.layout = Layout::kOneOutput;
        Check(it);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(FoldIndexTest, EveryInterleavingIsTheSame) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const int64_t offset : {0, 1}) {
      Case it = {.n = 3, .size = 1500, .end = 1500, .layout = Layout::kInPlace, .seed = seed};
      it.offsets = {offset % (kVectorBytes / SizeOf(dtype()))};
      it.most_blocks = 2;
      Check(it);
      if (HasFatalFailure()) return;
    }
  }
}

// What a launch would do.
cudaError_t Try(const Fold& fold) { return LaunchFoldBy(fold, fake::Interleaved{}); }

TEST(FoldRefusal, NamesWhatIsNotDefined) {
  alignas(16) uint8_t data[64] = {};
  Fold good = {.input_count = 1, .output_count = 1, .end = 4};
  good.inputs[0] = data;
  good.outputs[0] = data;
  EXPECT_EQ(Try(good), cudaSuccess);

  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      Fold fold = good;
      fold.dtype = static_cast<DType>(dtype);
      fold.op = static_cast<ReduceOp>(op);
      const bool defined = host::FoldFor(fold.dtype, fold.op) != nullptr;
      EXPECT_EQ(Try(fold), defined ? cudaSuccess : cudaErrorInvalidValue) << dtype << " " << op;
    }
  }
  const auto refused = [&good](auto change) {
    Fold fold = good;
    change(fold);
    return Try(fold) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](Fold& fold) { fold.input_count = 0; }));
  EXPECT_TRUE(refused([](Fold& fold) { fold.input_count = kMostRanks + 1; }));
  EXPECT_TRUE(refused([](Fold& fold) { fold.output_count = kMostRanks + 1; }));
  EXPECT_TRUE(refused([](Fold& fold) { fold.output_count = -1; }));
}

// Whatever the blocks, no more than asked for; and an empty fold launches nothing.
TEST(FoldLaunch, TakesAsManyBlocksAsThereIsWork) {
  const auto blocks_of = [](const Fold& fold) {
    int launched = 0;
    LaunchFoldBy(fold, [&launched](const auto& /*body*/, int blocks, int threads) {
      EXPECT_EQ(threads, kFoldThreads);
      launched = blocks;
      return cudaSuccess;
    });
    return launched;
  };
  alignas(16) uint8_t data[16] = {};
  Fold fold = {.input_count = 1, .output_count = 1};
  fold.inputs[0] = fold.outputs[0] = data;
  EXPECT_EQ(blocks_of(fold), 0);
  fold.end = 1;
  EXPECT_EQ(blocks_of(fold), 1);
  fold.end = 4 * kFoldThreads;
  EXPECT_EQ(blocks_of(fold), 1);
  fold.end = 4 * kFoldThreads + 4;
  EXPECT_EQ(blocks_of(fold), 2);
  fold.end = int64_t{1} << 40;
  EXPECT_EQ(blocks_of(fold), 1024);
  fold.most_blocks = 24;
  EXPECT_EQ(blocks_of(fold), 24);
  fold.outputs[0] = data + 4;  // by single elements
  fold.end = kFoldThreads + 1;
  EXPECT_EQ(blocks_of(fold), 2);
  fold.output_count = 0;
  EXPECT_EQ(blocks_of(fold), 0);
}

}  // namespace
}  // namespace mp::cuda
