// REE-2, REE-3: many more ranks than cores, and operations from within operations' own threads:
// sub- Regions, Worlds inside rank functions, one-call doors inside rank functions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;

constexpr int kMany = 64;

TEST(Ree3, SixtyFourRanksFinish) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(kMany);
    std::deque<Call> calls;
    for (const CallSpec& spec : OneOfEach()) calls.emplace_back(*world, spec);
    calls.emplace_back(*world, CallSpec{.dtype = DType::kI32, .shape = {20011}});
    const auto post = [&](Rank& rank) -> absl::Status {
      for (const Call& call : calls) MP_RETURN_IF_ERROR(call.Post(rank.region()));
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    for (const Call& call : calls) call.ExpectDone();
  }
}

TEST(Ree3, SixtyFourRanksFinishRoundAfterRound) {
  auto world = NewWorld(kMany);
  std::deque<Tensor> xs;
  for (int rank = 0; rank < kMany; ++rank) {
    xs.emplace_back(world->device(rank), DType::kU64, Shape{3});
    xs.back().Fill(EncodeAll(DType::kU64, {1, 2, 3}));
  }
  constexpr int kRounds = 10;  // 64 ^ 10 is 2 ^ 60
  const auto post = [&](Rank& rank) -> absl::Status {
    for (int round = 0; round < kRounds; ++round) {
      MP_RETURN_IF_ERROR(rank.region().AllReduce(xs[At(rank.id())].view()));
      MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  const double power = static_cast<double>(uint64_t{1} << 60);
  for (const Tensor& x : xs) {
    x.ExpectElements(EncodeAll(DType::kU64, {power, 2 * power, 3 * power}), "x");
  }
}

// Rows and columns of 8 x 8 ranks, in turn, overlapped and not.
TEST(Ree3, SixtyFourRanksFinishInRowsAndColumns) {
  auto world = NewWorld(kMany);
  std::vector<std::vector<int>> ranks(16);
  for (int rank = 0; rank < kMany; ++rank) {
    ranks[At(rank / 8)].push_back(rank);
    ranks[At(8 + rank % 8)].push_back(rank);
  }
  std::deque<Call> calls, overlapped;
  for (const auto& group : ranks) {
    calls.emplace_back(*world, group, CallSpec{.kind = OpKind::kAllGather, .shape = {2, 0}});
    overlapped.emplace_back(*world, group, CallSpec{.dtype = DType::kBF16, .shape = {33}});
  }
  const auto post = [&](Rank& rank) -> absl::Status {
    const size_t row = At(rank.id()) / 8, column = 8 + At(rank.id()) % 8;
    MP_ASSIGN_OR_RETURN(RankRegion in_row, rank.NewRegion(ranks[row]));
    MP_ASSIGN_OR_RETURN(RankRegion in_column, rank.NewRegion(ranks[column]));
    MP_ASSIGN_OR_RETURN(Work first, overlapped[row].Start(in_row));
    MP_ASSIGN_OR_RETURN(Work second, overlapped[column].Start(in_column));
    MP_RETURN_IF_ERROR(calls[row].Post(in_row));
    MP_RETURN_IF_ERROR(calls[column].Post(in_column));
    MP_RETURN_IF_ERROR(first.Synchronize());
    return second.Wait(rank.stream());
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (const Call& call : calls) call.ExpectDone();
  for (const Call& call : overlapped) call.ExpectDone();
}

TEST(Ree3, WorldsInsideRankFunctionsFinish) {
  SKIP_UNLESS(shares_devices);
  const std::shared_ptr<Backend> backend = NewBackend(2);
  auto world = World::Create(backend, {.devices = std::vector<int>(16, 0)}).value();
  std::atomic<int> finished{0};
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(std::unique_ptr<World> inner,
                        World::Create(backend, {.devices = {0, 1, 1}}));
    Call by_ranks(*inner, {.kind = OpKind::kAllGather}), by_one(*inner, {.seed = At(rank.id())});
    MP_RETURN_IF_ERROR(rank.region().AcquireSlot());
    MP_RETURN_IF_ERROR(inner->Run([&](Rank& own) { return by_ranks.Post(own.region()); }));
    MP_RETURN_IF_ERROR(by_one.Post(inner->region()));
    MP_RETURN_IF_ERROR(inner->Synchronize());
    by_ranks.ExpectDone();
    by_one.ExpectDone();
    ++finished;
    return rank.region().AcquireSlot();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  EXPECT_EQ(finished, 16);
}

TEST(Ree3, ThreadsOfTheApplicationBesideTheRanks) {
  // Eight threads call once for their own groups of eight, all at the same time.
  auto world = NewWorld(kMany, {.rank_threads = false});
  std::vector<Region> regions;
  std::deque<Call> calls;
  for (int group = 0; group < 8; ++group) {
    std::vector<int> ranks;
    for (int i = 0; i < 8; ++i) ranks.push_back(group + 8 * i);
    regions.push_back(world->NewRegion(ranks).value());
    for (int i = 0; i < 20; ++i) {
      calls.emplace_back(*world, ranks,
                         CallSpec{.kind = i % 2 == 0 ? OpKind::kAllGather : OpKind::kAllReduce,
                                  .shape = {5},
                                  .seed = At(i)});
    }
  }
  OnThreads(8, [&](int group) {
    for (size_t i = 0; i < 20; ++i) EXPECT_OK(calls[20 * At(group) + i].Post(regions[At(group)]));
  });
  EXPECT_OK(world->Synchronize());
  for (const Call& call : calls) call.ExpectDone();
}

}  // namespace
}  // namespace mp::test
