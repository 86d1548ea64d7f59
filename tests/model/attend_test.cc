// Shows on every vector target that attention of a head gives what the formula gives in double
// precision, for lengths and sizes around the vectors' and the tiles' own, out of rows that are
// apart; that huge scores are no trouble; and that nothing behind a row or the scratch is touched.
#include "mp/model/attend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "tests/host/kernels/targets.h"

namespace mp::model {
namespace {

constexpr float kPoison = 1e30f;

class AttendTest : public host::OnEveryTarget {};
MP_INSTANTIATE_ON_EVERY_TARGET(AttendTest);

// Queries, keys and values beside each other in rows of 3 * size and some poison.
struct Rows {
  Rows(int64_t rows, int64_t columns) : length(rows), size(columns) {
    std::mt19937_64 random(1);
    values.assign(static_cast<size_t>(length * pitch()), kPoison);
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t j = 0; j < 3 * size; ++j) {
        at(i, j) = static_cast<float>(static_cast<int64_t>(random() % 401) - 200) / 100.0f;
      }
    }
  }
  int64_t pitch() const { return 3 * size + 5; }
  float& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * pitch() + j)]; }

  double Wanted(int64_t row, int64_t column) {
    std::vector<double> scores;
    double most = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < length; ++j) {
      double score = 0;
      for (int64_t d = 0; d < size; ++d) {
        score += static_cast<double>(at(row, d)) * static_cast<double>(at(j, size + d));
      }
      scores.push_back(score / std::sqrt(static_cast<double>(size)));
      most = std::max(most, scores.back());
    }
    double sum = 0, out = 0;
    for (int64_t j = 0; j < length; ++j) {
      const double weight = std::exp(scores[static_cast<size_t>(j)] - most);
      sum += weight;
      out += weight * static_cast<double>(at(j, 2 * size + column));
    }
    return out / sum;
  }

  const int64_t length, size;
  std::vector<float> values;
};

void ExpectAttends(int64_t length, int64_t size) {
  Rows rows(length, size);
  const int64_t out_pitch = size + 2;
  std::vector<float> out(static_cast<size_t>(length * out_pitch), kPoison);
  std::vector<float> scratch(static_cast<size_t>(AttendScratch(length, size)) + 1, kPoison);
  Attend({&rows.at(0, 0), &rows.at(0, size), &rows.at(0, 2 * size), rows.pitch(), length, size},
         out.data(), out_pitch, scratch.data());
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t d = 0; d < size; ++d) {
      ASSERT_NEAR(out[static_cast<size_t>(i * out_pitch + d)], rows.Wanted(i, d), 5e-6)
          << length << " rows of " << size << ": " << i << ", " << d;
    }
    for (int64_t d = size; d < out_pitch; ++d) {
      ASSERT_EQ(out[static_cast<size_t>(i * out_pitch + d)], kPoison);
    }
  }
  EXPECT_EQ(scratch.back(), kPoison);
}

TEST_P(AttendTest, IsTheFormula) {
  for (const int64_t length : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 15, 16, 17, 31, 32, 33, 50}) {
    for (const int64_t size : {1, 4, 8, 15, 16, 17, 32, 33, 64}) ExpectAttends(length, size);
  }
  ExpectAttends(256, 32);
}

// Far apart, the largest score takes all.
TEST_P(AttendTest, OfHugeScores) {
  constexpr int64_t kLength = 4;
  std::vector<float> query(kLength, 1e15f), key = {-1e15f, 1e15f, 0, 5e14f}, value = {1, 2, 4, 8};
  std::vector<float> out(kLength, kPoison);
  std::vector<float> scratch(static_cast<size_t>(AttendScratch(kLength, 1)), kPoison);
  Attend({query.data(), key.data(), value.data(), 1, kLength, 1}, out.data(), 1, scratch.data());
  EXPECT_EQ(out, std::vector<float>(kLength, 2.0f));
}

}  // namespace
}  // namespace mp::model
