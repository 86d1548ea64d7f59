// Shows that the product is right to the bit: small whole numbers, whose sums are exact in any
// order, for uneven sizes and pitches, in outputs that are poisoned and longer than the result.
#include "mp/model/gemm.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

constexpr float kPoison = -12345.0f;

float ValueAt(int64_t row, int64_t column, int seed) {
  return static_cast<float>((row * 7 + column * 3 + seed) % 11 - 5);
}

// [rows, cols] with a few elements of poison behind each row.
std::vector<float> Filled(int64_t rows, int64_t cols, int64_t pitch, int seed) {
  std::vector<float> values(static_cast<size_t>(rows * pitch), kPoison);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      values[static_cast<size_t>(i * pitch + j)] = ValueAt(i, j, seed);
    }
  }
  return values;
}

void ExpectProduct(int64_t m, int64_t n, int64_t k) {
  SCOPED_TRACE(absl::StrCat(m, " ", n, " ", k));
  const std::vector<float> a = Filled(m, k, k + 2, 1), b = Filled(n, k, k + 3, 2);
  std::vector<float> out(static_cast<size_t>(m * (n + 1)), kPoison);
  const Matrix first{a.data(), k + 2}, second{b.data(), k + 3};
  ASSERT_OK(MultiplyTransposed(first, second, m, n, k, 0.5f, out.data(), n + 1));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t x = 0; x < k; ++x) {
        sum += ValueAt(i, x, 1) * ValueAt(j, x, 2);
      }
      ASSERT_EQ(out[static_cast<size_t>(i * (n + 1) + j)], sum / 2) << i << ", " << j;
    }
    EXPECT_EQ(out[static_cast<size_t>(i * (n + 1) + n)], kPoison);
  }
}

TEST(Gemm, IsExactOnWholeNumbers) {
  for (const int64_t m : {1, 3, 17, 64}) {
    for (const int64_t n : {1, 2, 33}) {
      for (const int64_t k : {1, 5, 32, 77}) ExpectProduct(m, n, k);
    }
  }
}

TEST(Gemm, WithoutAnInnerDimensionIsZero) {
  std::vector<float> out(6, kPoison);
  EXPECT_OK(MultiplyTransposed({nullptr, 1}, {nullptr, 1}, 3, 2, 0, 1, out.data(), 2));
  EXPECT_EQ(out, std::vector<float>(6, 0.0f));
  EXPECT_OK(MultiplyTransposed({nullptr, 1}, {nullptr, 1}, 0, 2, 1, 1, nullptr, 2));
}

TEST(Gemm, SaysWhatOneDnnRefuses) {
  float value = 1;
  EXPECT_THAT(MultiplyTransposed({&value, 1}, {&value, 1}, 1, 1, 2, 1, &value, 1),
              test::KindIs(ErrorKind::kDeviceError,
                           "dnnl_sgemm of [1, 2] times [2, 1]: invalid "
                           "arguments (2)"));
}

}  // namespace
}  // namespace mp::model
