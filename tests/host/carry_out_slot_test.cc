// Shows that a shard that lies in its slot of a result is not written: its pages cannot be, so that
// a single byte stored there would end the test.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "mp/host/carry_out.h"

namespace mp::host {
namespace {

// Pages of a result: `rows` of `columns` pages of i8, of which some cannot be written.
class Pages {
 public:
  Pages(int64_t rows, int64_t columns) : columns_(columns), bytes_(rows * columns * kPage) {
    memory_ =
        mmap(nullptr, Size(bytes_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Pages() { munmap(memory_, Size(bytes_)); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  uint8_t* at(int64_t row, int64_t column) {
    return static_cast<uint8_t*>(memory_) + (row * columns_ + column) * kPage;
  }
  void Protect(int64_t row, int64_t column) {
    EXPECT_EQ(mprotect(at(row, column), Size(kPage), PROT_READ), 0);
  }
  static inline const int64_t kPage = sysconf(_SC_PAGESIZE);

 private:
  static size_t Size(int64_t bytes) { return static_cast<size_t>(bytes); }
  int64_t columns_, bytes_;
  void* memory_;
};

// Every rank's shard is one column of `rows` pages, in its slot of its own result, and of rank 0's
// where `all_in_one`.  Joined along the columns, or along the rows where there is one.
void ExpectSlotsUntouched(int64_t rows, int dim, bool all_in_one, int root) {
  constexpr int kRanks = 3;
  std::deque<Pages> results;
  Descriptor descriptor;
  descriptor.kind = root < 0 ? OpKind::kAllGather : OpKind::kGather;
  descriptor.dtype = DType::kI8;
  descriptor.root = root;
  descriptor.dim = dim;
  descriptor.shape = dim == 0 ? Shape{0, Pages::kPage} : Shape{rows, 0};
  std::vector<Part> parts(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    Part& part = parts[static_cast<size_t>(rank)];
    results.emplace_back(rows, kRanks);
    Pages& holds = all_in_one ? results.front() : results.back();
    for (int64_t row = 0; row < rows; ++row) {
      std::fill_n(holds.at(row, rank), Pages::kPage, static_cast<uint8_t>(10 * row + rank + 1));
      holds.Protect(row, rank);
    }
    const int64_t pitch = dim == 0 ? Pages::kPage : kRanks * Pages::kPage;
    const int64_t extent = dim == 0 ? 1 : Pages::kPage;
    part = {holds.at(0, rank), pitch, results.back().at(0, 0), pitch, extent, kRanks * extent};
  }
  for (int64_t pieces = 1; pieces <= 7; ++pieces) {
    for (int64_t piece = 0; piece < pieces; ++piece) CarryOut(descriptor, parts, piece, pieces);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if (root >= 0 && rank != root) continue;
    for (int64_t row = 0; row < rows; ++row) {
      for (int column = 0; column < kRanks; ++column) {
        const uint8_t* page = results[static_cast<size_t>(rank)].at(row, column);
        const auto is_right = [&](uint8_t byte) { return byte == 10 * row + column + 1; };
        EXPECT_TRUE(std::all_of(page, page + Pages::kPage, is_right)) << row << " " << column;
      }
    }
  }
}

TEST(CarryOut, WritesNoShardThatLiesInItsSlot) {
  for (const bool all_in_one : {false, true}) {
    ExpectSlotsUntouched(/*rows=*/1, /*dim=*/0, all_in_one, /*root=*/-1);
    ExpectSlotsUntouched(/*rows=*/1, /*dim=*/1, all_in_one, /*root=*/-1);
    ExpectSlotsUntouched(/*rows=*/2, /*dim=*/1, all_in_one, /*root=*/-1);
    ExpectSlotsUntouched(/*rows=*/2, /*dim=*/1, all_in_one, /*root=*/0);
    ExpectSlotsUntouched(/*rows=*/9, /*dim=*/1, all_in_one, /*root=*/2);
  }
}

// Its first row alone does.
TEST(CarryOut, WritesAShardThatOnlyBeginsInItsSlot) {
  Descriptor descriptor;
  descriptor.kind = OpKind::kGather;
  descriptor.dtype = DType::kI8;
  descriptor.root = 0;
  descriptor.dim = 1;
  descriptor.shape = {2, 0};
  // Rows of the result are 5 bytes apart, those of the shard 20.
  std::vector<int8_t> memory(64, -1);
  const std::vector<int8_t> other = {30, 31, 32, 40, 41, 42};
  memory[0] = 10, memory[1] = 11;
  memory[20] = 20, memory[21] = 21;
  const std::vector<Part> parts = {
      {memory.data(), 20, memory.data(), 5, 2, 5},
      {other.data(), 3, nullptr, 0, 3, 0},
  };
  CarryOut(descriptor, parts, 0, 1);
  EXPECT_EQ(std::vector<int8_t>(memory.begin(), memory.begin() + 11),
            (std::vector<int8_t>{10, 11, 30, 31, 32, 20, 21, 40, 41, 42, -1}));
}

}  // namespace
}  // namespace mp::host
