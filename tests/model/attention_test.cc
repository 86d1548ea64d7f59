// Shows that attention gives what the formula gives in double precision, for each text of a batch
// on its own, for every number of threads, and writes its own rows and columns only.
#include "mp/model/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace mp::model {
namespace {

constexpr float kPoison = 1e30f;
constexpr int64_t kHeads = 3, kSize = 4, kWidth = kHeads * kSize, kPitch = 3 * kWidth;

// Element (row, column) of the context of one text whose rows begin at `begin`.
double Wanted(const std::vector<float>& qkv, int64_t begin, int64_t length, int64_t row,
              int64_t column) {
  const int64_t head = column / kSize;
  const auto at = [&](int64_t i, int64_t col) {
    return static_cast<double>(qkv[static_cast<size_t>((begin + i) * kPitch + col)]);
  };
  double sum = 0, out = 0;
  for (int64_t j = 0; j < length; ++j) {
    double score = 0;
    for (int64_t d = head * kSize; d < (head + 1) * kSize; ++d) {
      score += at(row, d) * at(j, kWidth + d);
    }
    const double weight = std::exp(score / std::sqrt(static_cast<double>(kSize)));
    sum += weight;
    out += weight * at(j, 2 * kWidth + column);
  }
  return out / sum;
}

TEST(Attention, IsEachTextsOwn) {
  const std::vector<std::vector<int32_t>> texts = {
      std::vector<int32_t>(19), {1}, {1, 2}, {1}, std::vector<int32_t>(8)};
  const auto batch = std::make_shared<const TokenBatch>(MakeBatches(texts, 100)[0]);
  const int64_t tokens = batch->token_count();
  std::mt19937_64 random(1);
  std::vector<float> qkv;
  for (int64_t i = 0; i < tokens * kPitch; ++i) {
    qkv.push_back(static_cast<float>(static_cast<int64_t>(random() % 401) - 200) / 100.0f);
  }
  for (const int threads : {1, 2, 3}) {
    std::vector<float> out(static_cast<size_t>(tokens * kWidth) + 1, kPoison);
    const int64_t floats = threads * Attention::ScratchFloats(19, kSize);
    std::vector<float> scratch(static_cast<size_t>(floats) + 1, kPoison);
    const Attention attention{batch,      kHeads,     kSize,         threads,
                              qkv.data(), out.data(), scratch.data()};
    attention();
    for (int64_t text = 0; text < batch->text_count(); ++text) {
      const int64_t begin = batch->offsets[static_cast<size_t>(text)];
      for (int64_t row = 0; row < batch->length(text); ++row) {
        for (int64_t column = 0; column < kWidth; ++column) {
          ASSERT_NEAR(out[static_cast<size_t>((begin + row) * kWidth + column)],
                      Wanted(qkv, begin, batch->length(text), row, column), 2e-6)
              << "text " << text << ", row " << row << ", column " << column;
        }
      }
    }
    EXPECT_EQ(out.back(), kPoison);
    EXPECT_EQ(scratch.back(), kPoison);
  }
}

}  // namespace
}  // namespace mp::model
