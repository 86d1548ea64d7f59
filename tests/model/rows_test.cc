// Shows on every vector target that each loop gives what the same formula gives in double
// precision, for sizes around the vectors' own, and touches nothing behind its row.
#include "mp/model/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/host/kernels/targets.h"

namespace mp::model {
namespace {

constexpr float kPoison = 1e30f;
const std::vector<int64_t> kSizes = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 77, 384};

using Values = std::vector<float>;

Values Random(int64_t count, uint64_t seed, double scale = 2) {
  std::mt19937_64 random(seed);
  Values values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(
        static_cast<float>((static_cast<double>(random() % 20001) - 10000) / 10000 * scale));
  }
  return values;
}

double Gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }

// One row of LayerNorm(x + y + bias).
std::vector<double> Normalized(const std::vector<double>& x, const LayerNorm& norm) {
  const auto count = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / count;
  for (const double v : x) variance += (v - mean) * (v - mean) / count;
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i) {
    out.push_back((x[i] - mean) / std::sqrt(variance + static_cast<double>(norm.epsilon)) *
                      static_cast<double>(norm.weight[i]) +
                  static_cast<double>(norm.bias[i]));
  }
  return out;
}

class RowsTest : public host::OnEveryTarget {};
MP_INSTANTIATE_ON_EVERY_TARGET(RowsTest);

void ExpectMap(void (*function)(float*, const float*, int64_t, int64_t),
               const std::function<double(double)>& wanted, double tolerance) {
  for (const int64_t cols : kSizes) {
    constexpr int64_t kRows = 3;
    const Values before = Random(kRows * cols, 1), bias = Random(cols, 2);
    Values x = before;
    x.push_back(kPoison);
    function(x.data(), bias.data(), kRows, cols);
    for (int64_t i = 0; i < kRows * cols; ++i) {
      const auto at = static_cast<size_t>(i);
      const double in = static_cast<double>(before[at] + bias[static_cast<size_t>(i % cols)]);
      ASSERT_NEAR(static_cast<double>(x[at]), wanted(in), tolerance * (1 + std::abs(in)))
          << cols << " columns, element " << i;
    }
    EXPECT_EQ(x.back(), kPoison);
  }
}

TEST_P(RowsTest, AddBias) {
  ExpectMap(
      AddBias, [](double x) { return x; }, 0);
}

TEST_P(RowsTest, AddBiasRelu) {
  ExpectMap(
      AddBiasRelu, [](double x) { return x > 0 ? x : 0; }, 0);
}

TEST_P(RowsTest, AddBiasGelu) { ExpectMap(AddBiasGelu, Gelu, 2e-7); }

TEST_P(RowsTest, GeluFarOut) {
  for (const float x : {-100.0f, -20.0f, -6.0f, -0.0f, 0.0f, 6.0f, 20.0f, 100.0f, 1e30f}) {
    float value = x;
    const float zero = 0;
    AddBiasGelu(&value, &zero, 1, 1);
    EXPECT_NEAR(value, Gelu(x), 1e-7 * std::abs(x)) << x;
  }
}

TEST_P(RowsTest, AddThree) {
  for (const int64_t cols : kSizes) {
    const Values a = Random(cols, 1), b = Random(cols, 2), c = Random(cols, 3);
    Values out(static_cast<size_t>(cols) + 1, kPoison);
    AddThree(out.data(), a.data(), b.data(), c.data(), cols);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], a[i] + b[i] + c[i]);
    EXPECT_EQ(out.back(), kPoison);
  }
}

TEST_P(RowsTest, Norms) {
  for (const int64_t cols : kSizes) {
    constexpr int64_t kRows = 3;
    const Values x = Random(kRows * cols, 1), y = Random(kRows * cols, 2), bias = Random(cols, 3),
                 weight = Random(cols, 4), shift = Random(cols, 5);
    const LayerNorm norm{weight.data(), shift.data(), 1e-3f};
    Values plain(x.size() + 1, kPoison), sum = x;
    sum.push_back(kPoison);
    Normalize(plain.data(), x.data(), norm, kRows, cols);
    AddAndNormalize(sum.data(), y.data(), bias.data(), norm, kRows, cols);
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<double> just_x, all;
      for (int64_t i = 0; i < cols; ++i) {
        const auto at = static_cast<size_t>(row * cols + i);
        just_x.push_back(static_cast<double>(x[at]));
        all.push_back(static_cast<double>(x[at]) + static_cast<double>(y[at]) +
                      static_cast<double>(bias[static_cast<size_t>(i)]));
      }
      const std::vector<double> wanted = Normalized(just_x, norm),
                                wanted_sum = Normalized(all, norm);
      for (int64_t i = 0; i < cols; ++i) {
        const auto at = static_cast<size_t>(row * cols + i);
        const double tolerance = cols == 1 ? 1e-4 : 1e-5;
        ASSERT_NEAR(plain[at], wanted[static_cast<size_t>(i)], tolerance) << cols << ", " << at;
        ASSERT_NEAR(sum[at], wanted_sum[static_cast<size_t>(i)], tolerance) << cols << ", " << at;
      }
    }
    EXPECT_EQ(plain.back(), kPoison);
    EXPECT_EQ(sum.back(), kPoison);
  }
}

TEST_P(RowsTest, MeanOfRows) {
  for (const int64_t cols : kSizes) {
    for (const int64_t rows : {1, 2, 4, 8}) {  // whole numbers and powers of two: exact
      const int64_t pitch = cols + 3;
      Values x(static_cast<size_t>(rows * pitch), kPoison),
          out(static_cast<size_t>(cols) + 1, kPoison);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < cols; ++i) {
          x[static_cast<size_t>(row * pitch + i)] = static_cast<float>(row * row + 5 * i);
        }
      }
      MeanOfRows(out.data(), x.data(), rows, cols, pitch);
      float squares = 0;
      for (int64_t row = 0; row < rows; ++row) squares += static_cast<float>(row * row);
      for (int64_t i = 0; i < cols; ++i) {
        ASSERT_EQ(out[static_cast<size_t>(i)],
                  squares / static_cast<float>(rows) + static_cast<float>(5 * i));
      }
      EXPECT_EQ(out.back(), kPoison);
    }
  }
}

TEST_P(RowsTest, ScaleToUnit) {
  for (const int64_t cols : kSizes) {
    const Values x = Random(cols, 1);
    Values out(x.size() + 1, kPoison);
    const float length = ScaleToUnit(out.data(), x.data(), cols);
    double square = 0;
    for (const float v : x) square += static_cast<double>(v) * static_cast<double>(v);
    EXPECT_NEAR(length, std::sqrt(square), 1e-5);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(out[i], static_cast<double>(x[i]) / std::sqrt(square), 3e-7);
    }
    EXPECT_EQ(out.back(), kPoison);
  }
  const Values zero(5, 0.0f);
  Values out(5, kPoison);
  EXPECT_EQ(ScaleToUnit(out.data(), zero.data(), 5), 0);
  EXPECT_EQ(out, zero);
}

}  // namespace
}  // namespace mp::model
