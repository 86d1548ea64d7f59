// Shows that what need not be touched is not touched: it lies in memory that can be neither read
// nor written, so that a single byte moved would end the test.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/support/status_matchers.h"

namespace mp::test {
namespace {

using ::testing::Each;

// Pages of memory, each of which can be forbidden.
class Pages {
 public:
  explicit Pages(int count) : size_(static_cast<size_t>(count) * PageBytes()) {
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Pages() { munmap(memory_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  static size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  static int64_t PageFloats() { return static_cast<int64_t>(PageBytes() / sizeof(float)); }

  float* page(int i) { return static_cast<float*>(memory_) + i * PageFloats(); }
  void Forbid(int i) { EXPECT_EQ(mprotect(page(i), PageBytes(), PROT_NONE), 0); }

 private:
  void* memory_;
  size_t size_;
};

TensorView Rows(float* data, int64_t rows) {
  return TensorView(data, DType::kF32, {rows, Pages::PageFloats()});
}

// What the ranks of a World of that many, on a fresh backend, are told.
std::vector<absl::Status> Told(int ranks, const std::function<absl::Status(Rank&)>& post) {
  auto world = World::Create(host::NewBackend({.devices = ranks}).value(), {}).value();
  std::vector<absl::Status> told(static_cast<size_t>(ranks));
  EXPECT_OK(world->Run([&](Rank& rank) {
    absl::Status& mine = told[static_cast<size_t>(rank.id())];
    mine = post(rank);
    const absl::Status waited = rank.stream().Synchronize();
    if (mine.ok()) mine = waited;
    return absl::OkStatus();
  }));
  return told;
}

TEST(NoByte, OfAShardInItsSlotIsMoved) {
  // Row 1 of 3 is the shard of rank 1, in its slot; the others are copied around it.
  Pages full(3), shards(2);
  for (int i = 0; i < Pages::PageFloats(); ++i) {
    shards.page(0)[i] = static_cast<float>(i);
    shards.page(1)[i] = static_cast<float>(-i);
  }
  full.Forbid(1);
  EXPECT_THAT(Told(3,
                   [&](Rank& rank) {
                     float* own[] = {shards.page(0), full.page(1), shards.page(1)};
                     return rank.region().Gather(Rows(own[rank.id()], 1), Rows(full.page(0), 3), 2,
                                                 {.dim = 0});
                   }),
              Each(IsOk()));
  EXPECT_EQ(std::memcmp(full.page(0), shards.page(0), Pages::PageBytes()), 0);
  EXPECT_EQ(std::memcmp(full.page(2), shards.page(1), Pages::PageBytes()), 0);
}

TEST(NoByte, OfShardsThatAllLieInTheirSlotsIsMoved) {
  Pages full(3);
  for (const int page : {0, 1, 2}) full.Forbid(page);
  for (const bool to_all : {false, true}) {
    EXPECT_THAT(Told(3,
                     [&](Rank& rank) {
                       const TensorView shard = Rows(full.page(rank.id()), 1);
                       const TensorView output = Rows(full.page(0), 3);
                       if (!to_all) return rank.region().Gather(shard, output, 0, {.dim = 0});
                       return rank.region().AllGather(shard, output,
                                                      {.dim = 0, .shared_output = true});
                     }),
                Each(IsOk()));
  }
}

TEST(NoByte, OfTheOutputOfARankThatIsNotTheRootIsTouched) {
  Pages full(2), elsewhere(2), shards(2);
  elsewhere.Forbid(0);
  elsewhere.Forbid(1);
  EXPECT_THAT(Told(2,
                   [&](Rank& rank) {
                     return rank.region().Gather(
                         Rows(shards.page(rank.id()), 1),
                         Rows(rank.id() == 1 ? full.page(0) : elsewhere.page(0), 2), 1, {.dim = 0});
                   }),
              Each(IsOk()));
}

TEST(NoByte, IsTouchedByARegionOfOneRankInPlace) {
  Pages x(1);
  x.Forbid(0);
  EXPECT_THAT(Told(1,
                   [&](Rank& rank) -> absl::Status {
                     const TensorView view = Rows(x.page(0), 1);
                     RankRegion& region = rank.region();
                     for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin,
                                               ReduceOp::kMax, ReduceOp::kAvg}) {
                       MP_RETURN_IF_ERROR(region.AllReduce(view, {.op = op}));
                     }
                     MP_RETURN_IF_ERROR(region.AllReduce(view, view));
                     MP_RETURN_IF_ERROR(region.Gather(view, view, 0));
                     MP_RETURN_IF_ERROR(region.AllGather(view, view));
                     return region.StartAllReduce(view).status();
                   }),
              Each(IsOk()));
}

TEST(NoByte, IsTouchedByRanksThatDisagree) {
  Pages x(2);
  x.Forbid(0);
  x.Forbid(1);
  EXPECT_THAT(Told(2,
                   [&](Rank& rank) {
                     const TensorView view = Rows(x.page(rank.id()), 1);
                     return rank.region().AllReduce(
                         view, {.op = rank.id() == 0 ? ReduceOp::kSum : ReduceOp::kMax});
                   }),
              Each(KindIs(ErrorKind::kMismatch)));
}

// Rows that begin more than 2^32 bytes apart, in memory of which next to nothing is used.
TEST(Siz10, RowsMayBeFarApart) {
  constexpr int64_t kPitch = (int64_t{1} << 32) + 4096, kRows = 3, kColumns = 5;
  const auto reserve = [] {
    return static_cast<char*>(mmap(nullptr, kRows * kPitch, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  };
  char* const input = reserve();
  char* const output = reserve();
  ASSERT_NE(input, MAP_FAILED);
  ASSERT_NE(output, MAP_FAILED);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      input[row * kPitch + column] = static_cast<char>(10 * row + column);
    }
  }
  const TensorView far = TensorView::Pitched(input, DType::kI8, {kRows, kColumns}, kPitch).value();
  const TensorView full =
      TensorView::Pitched(output, DType::kI8, {kRows, kColumns}, kPitch).value();
  EXPECT_THAT(Told(2,
                   [&](Rank& rank) {
                     const TensorView none(nullptr, DType::kI8, {kRows, 0});
                     return rank.region().Gather(rank.id() == 0 ? far : none, full, 1);
                   }),
              Each(IsOk()));
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      EXPECT_EQ(output[row * kPitch + column], static_cast<char>(10 * row + column));
    }
    EXPECT_EQ(output[row * kPitch + kColumns], 0);
  }
  munmap(input, kRows * kPitch);
  munmap(output, kRows * kPitch);
}

}  // namespace
}  // namespace mp::test
