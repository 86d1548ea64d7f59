// Proves that copies of rows write exactly the rows, on every vector target of this machine: all
// row sizes up to a few vectors and sizes around the blocks, few and many rows, tight and loose
// pitches, every byte offset, one and several destinations, ordinary and streaming.  The whole
// destination is compared: the rows, the poison between them and the guard bytes around them.
#include "mp/host/kernels/copy.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/host/kernels/guarded.h"
#include "tests/host/kernels/targets.h"

namespace mp::host {
namespace {

struct Shape {
  int64_t row_bytes;
  int64_t rows;
  int64_t dst_gap;  // pitch less row_bytes
  int64_t src_gap;
};

std::vector<uint8_t> RandomBytes(int64_t size) {
  std::mt19937 random(static_cast<uint32_t>(size));
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Bytes from the start of the first row to the end of the last.
int64_t Extent(const Shape& shape, int64_t gap) {
  return shape.rows == 0 ? 0 : (shape.row_bytes + gap) * (shape.rows - 1) + shape.row_bytes;
}

// m = 0 means CopyRows.
void CheckCopy(const Shape& shape, int m, int64_t offset, bool streaming) {
  const int64_t dst_pitch = shape.row_bytes + shape.dst_gap;
  const int64_t src_pitch = shape.row_bytes + shape.src_gap;
  const std::vector<uint8_t> bytes = RandomBytes(Extent(shape, shape.src_gap));
  Guarded source(Extent(shape, shape.src_gap), (3 * offset + 1) % 16);
  source.Fill(bytes.data());
  std::vector<uint8_t> expected(static_cast<size_t>(Extent(shape, shape.dst_gap)),
                                Guarded::kPoison);
  for (int64_t row = 0; row < shape.rows; ++row) {
    std::copy_n(bytes.begin() + row * src_pitch, shape.row_bytes,
                expected.begin() + row * dst_pitch);
  }
  std::vector<Guarded> destinations;
  std::vector<void*> dsts;
  for (int k = 0; k < std::max(m, 1); ++k) {
    destinations.emplace_back(Extent(shape, shape.dst_gap), (offset + 5 * k) % 64);
    dsts.push_back(destinations.back().data());
  }

  if (m == 0) {
    CopyRows(dsts[0], dst_pitch, source.data(), src_pitch, shape.row_bytes, shape.rows, streaming);
  } else {
    CopyRowsToMany(dsts.data(), m, dst_pitch, source.data(), src_pitch, shape.row_bytes, shape.rows,
                   streaming);
  }

  for (const Guarded& destination : destinations) {
    const std::string what =
        std::to_string(shape.rows) + " rows of " + std::to_string(shape.row_bytes) + ", gaps " +
        std::to_string(shape.dst_gap) + " and " + std::to_string(shape.src_gap) + ", offset " +
        std::to_string(offset) + ", m " + std::to_string(m);
    ASSERT_TRUE(destination.Holds(expected.data())) << what;
    ASSERT_TRUE(destination.GuardsAreIntact()) << what;
  }
  ASSERT_TRUE(source.Holds(bytes.data()));
}

class CopyTest : public OnEveryTarget {};
MP_INSTANTIATE_ON_EVERY_TARGET(CopyTest);

TEST_P(CopyTest, EveryShortRow) {
  for (int64_t row_bytes = 0; row_bytes <= 330; ++row_bytes) {
    int64_t turn = row_bytes;
    for (const int64_t rows : {0, 1, 2, 5}) {
      for (const int64_t gap : {0, 1, 64, 77}) {
        for (const bool streaming : {false, true}) {
          CheckCopy({row_bytes, rows, gap, (gap * 3) % 79}, 0, turn++ % 16, streaming);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(CopyTest, EveryOffset) {
  for (const int64_t row_bytes :
       {1,   2,   3,   4,   7,   8,   15,   16,   17,   31,   32,   33,   63,    64,    65,   127,
        128, 129, 191, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 16383, 16384, 20001}) {
    for (int64_t offset = 0; offset < 16; ++offset) {
      CheckCopy({row_bytes, 3, 5, 0}, 0, offset, offset % 2 == 0);
      CheckCopy({row_bytes, 3, 0, 0}, 0, offset, offset % 2 == 1);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CopyTest, ToMany) {
  int64_t turn = 0;
  for (const int64_t row_bytes : {1, 24, 64, 100, 1000, 4096, 8191, 8192, 8193, 20001}) {
    for (const int64_t rows : {1, 2, 300}) {
      if (row_bytes * rows > 100000) continue;
      for (const int m : {1, 2, 3, 8}) {
        for (const int64_t gap : {0, 9, 128}) {
          for (const bool streaming : {false, true}) {
            CheckCopy({row_bytes, rows, gap, (turn % 3) * 8}, m, turn % 64, streaming);
            ++turn;
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Rows of a destination that follow each other upwards while those of the source go down, and a
// source row that is repeated.
TEST_P(CopyTest, AnyPitch) {
  std::vector<uint8_t> source(100);
  std::iota(source.begin(), source.end(), uint8_t{0});
  std::vector<uint8_t> target(100);
  CopyRows(target.data(), 10, source.data() + 90, -10, 10, 10, false);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(target[i], 90 - i / 10 * 10 + i % 10);
  CopyRows(target.data(), 10, source.data() + 50, 0, 10, 10, false);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(target[i], 50 + i % 10);
}

TEST(CopyRowsTest, NothingToCopyTouchesNoPointer) {
  CopyRows(nullptr, 4, nullptr, 4, 0, 3, true);
  CopyRows(nullptr, 4, nullptr, 4, 4, 0, false);
  CopyRowsToMany(nullptr, 0, 4, nullptr, 4, 4, 3, true);
}

TEST(StreamingThresholdTest, IsHalfACacheAndBounded) {
  EXPECT_GE(StreamingThresholdBytes(), 64 << 10);
  EXPECT_LE(StreamingThresholdBytes(), 16 << 20);
  EXPECT_EQ(StreamingThresholdBytes(), StreamingThresholdBytes());
}

}  // namespace
}  // namespace mp::host
