// The fold with pointers that are no multiples of an element, and its division: bit by bit the
// host's fold.
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "mp/cuda/kernels/fold-inl.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/dtype.h"
#include "mp/host/kernels/fold.h"
#include "tests/cuda/kernels/guarded.h"
#include "tests/fake/kernels/interleaved.h"

namespace mp::cuda {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

cudaError_t RunFold(const Fold& fold) {
  return LaunchFoldBy(fold, [](const auto& body, int blocks, int threads) {
    fake::Interleaved{7}(body, blocks, threads);
    return cudaSuccess;
  });
}

// What the host gives for the same inputs at aligned addresses.
Bytes OnHost(const Fold& fold, const std::vector<Bytes>& inputs) {
  std::vector<const void*> from;
  for (const Bytes& input : inputs) from.push_back(input.data());
  Bytes result(inputs[0].size());
  void* to = result.data();
  host::FoldFor(fold.dtype, fold.op)(from.data(), static_cast<int>(from.size()), &to, 1, 0,
                                     fold.end, {.scale = fold.scale});
  return result;
}

TEST(FoldBytes, AnyByteIsAsGoodAsAnyOther) {
  for (const DType dtype : {DType::kF16, DType::kF32, DType::kF64, DType::kI32, DType::kU64}) {
    for (const int64_t count : {1, 5, 33, 300}) {
      for (size_t offset = 0; offset < 16; ++offset) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << count << " " << offset);
        const auto size = static_cast<size_t>(count * SizeOf(dtype));
        Fold fold = {.dtype = dtype, .op = ReduceOp::kMax, .input_count = 3, .output_count = 2};
        fold.end = count;
        std::vector<Bytes> inputs;
        std::vector<Guarded> from, to;
        for (size_t r = 0; r < 3; ++r) {
          inputs.push_back(RandomBytes(size, 100 * offset + r));
          from.emplace_back(size, (offset + 5 * r) % 16);
          from[r].Fill(inputs[r]);
          fold.inputs[r] = from[r].data();
        }
        for (size_t k = 0; k < 2; ++k) {
          to.emplace_back(size, (offset + 3 * k) % 16);
          fold.outputs[k] = to[k].data();
        }
        ASSERT_EQ(RunFold(fold), cudaSuccess);
        const Bytes expected = OnHost(fold, inputs);
        for (const Guarded& output : to) {
          EXPECT_EQ(output.bytes(), expected);
          EXPECT_TRUE(output.GuardsAreIntact());
        }
        for (size_t r = 0; r < 3; ++r) EXPECT_EQ(from[r].bytes(), inputs[r]);
      }
    }
  }
}

TEST(FoldBytes, AnAverageDividesByWhatItIsTold) {
  for (const int divisor : {0, 1, 3, 7}) {
    for (const int64_t count : {1, 4, 37}) {
      std::vector<float> values;
      for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i) - 10.25f);
      std::vector<float> sums = values;
      Fold fold = {.op = ReduceOp::kAvg, .input_count = 1, .output_count = 1, .end = count};
      fold.inputs[0] = fold.outputs[0] = sums.data();
      fold.divisor = divisor;
      ASSERT_EQ(RunFold(fold), cudaSuccess);
      for (size_t i = 0; i < values.size(); ++i) {
        // Once where the number of inputs counts, which is one.
        const float expected = divisor == 0 ? values[i] : values[i] / static_cast<float>(divisor);
        EXPECT_EQ(sums[i], expected) << i << " / " << divisor;
      }
    }
  }
}

TEST(FoldBytes, TakesAsManyRanksAsItSays) {
  Fold fold = {.dtype = DType::kI32, .input_count = kMostRanks, .output_count = kMostRanks};
  fold.end = 6;
  std::vector<std::vector<int32_t>> values;
  for (int r = 0; r < kMostRanks; ++r) values.push_back({r, 2 * r, -r, 1, 1 << (r % 31), 0});
  for (size_t r = 0; r < values.size(); ++r) fold.inputs[r] = fold.outputs[r] = values[r].data();
  int32_t bits = 0;
  for (int r = 0; r < kMostRanks; ++r) bits += 1 << (r % 31);
  const int32_t sum = kMostRanks * (kMostRanks - 1) / 2;
  ASSERT_EQ(RunFold(fold), cudaSuccess);
  for (const auto& output : values) {
    EXPECT_EQ(output, (std::vector<int32_t>{sum, 2 * sum, -sum, kMostRanks, bits, 0}));
  }
}

}  // namespace
}  // namespace mp::cuda
