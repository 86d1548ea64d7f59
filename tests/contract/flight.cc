// World::Recent: the last operations of every rank, with how far they came, at any time and from
// any thread; and that an error of absence or disagreement brings those of the ranks concerned.

#include "mp/flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kNever = absl::InfiniteDuration();

std::vector<RecentOperation> Of(const World& world, int rank) {
  std::vector<RecentOperation> mine;
  for (RecentOperation& operation : world.Recent()) {
    if (operation.rank == rank) mine.push_back(std::move(operation));
  }
  return mine;
}

TEST(Flight, EveryRankHasItsLastOperations) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    EXPECT_THAT(world->Recent(), IsEmpty());
    ASSERT_OK_AND_ASSIGN(Region pair, world->NewRegion({2, 0}, {.name = "pair"}));
    Call sum(*world, {.dtype = DType::kF16, .shape = {3, 5}});
    Call join(*world, {2, 0}, {.kind = OpKind::kAllGather, .shape = {2, 0}, .extents = {3, 1}});
    const auto post = [&](Rank& rank) -> absl::Status {
      MP_RETURN_IF_ERROR(sum.Post(rank.region()));
      if (rank.id() == 1) return absl::OkStatus();
      MP_ASSIGN_OR_RETURN(RankRegion mine, pair.ForRank(rank));
      MP_ASSIGN_OR_RETURN(Work work, join.Start(mine));
      return work.Wait(rank.stream());
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    const int64_t bytes[] = {2 * 1 * 4, 0, 2 * 3 * 4};
    for (int id = 0; id < 3; ++id) {
      SCOPED_TRACE(id);
      const std::vector<RecentOperation> mine = Of(*world, id);
      ASSERT_EQ(mine.size(), id == 1 ? 1u : 2u);
      EXPECT_EQ(mine[0].region, "world");
      EXPECT_EQ(mine[0].name, "AllReduce");
      EXPECT_EQ(mine[0].dtype, DType::kF16);
      EXPECT_EQ(mine[0].bytes, 30);
      EXPECT_FALSE(mine[0].overlaps);
      if (id != 1) {
        EXPECT_EQ(mine[1].region, "pair");
        EXPECT_EQ(mine[1].name, "AllGather");
        EXPECT_EQ(mine[1].bytes, bytes[id]);
        EXPECT_TRUE(mine[1].overlaps);
      }
      for (const RecentOperation& operation : mine) {
        EXPECT_EQ(operation.sequence, 0u);
        EXPECT_FALSE(operation.dropped);
        EXPECT_LE(operation.posted, operation.agreed);
        EXPECT_LE(operation.agreed, operation.issued);
        EXPECT_LT(operation.issued, kNever);
        EXPECT_EQ(operation.completed < kNever, Under().tells_the_end);
        if (Under().tells_the_end) {
          EXPECT_LE(operation.issued, operation.completed);
        }
      }
    }
  }
}

TEST(Flight, TheRingHoldsTheLast) {
  auto world = NewWorld(2);
  Call call(*world, {});
  const auto post = [&](Rank& rank) -> absl::Status {
    for (int i = 0; i < 150; ++i) MP_RETURN_IF_ERROR(call.Post(rank.region()));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (int id = 0; id < 2; ++id) {
    const std::vector<RecentOperation> mine = Of(*world, id);
    ASSERT_EQ(mine.size(), 64u);
    for (size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i].sequence, 150 - 64 + i);
  }
}

TEST(Flight, TheOneCallDoorPostsForAll) {
  auto world = NewWorld(3);
  Call call(*world, {.kind = OpKind::kAllGather});
  EXPECT_OK(call.Post(world->region()));
  EXPECT_OK(world->Synchronize());
  for (int id = 0; id < 3; ++id) {
    const std::vector<RecentOperation> mine = Of(*world, id);
    ASSERT_EQ(mine.size(), 1u);
    EXPECT_EQ(mine[0].name, "AllGather");
    EXPECT_EQ(mine[0].bytes, call.input(id).size_bytes());
  }
}

TEST(Flight, WhatWaitsIsThere) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2, 1, {.absence_timeout = absl::Seconds(30)});
  EXPECT_OK(stepped.region(0).AcquireSlot());
  std::vector<RecentOperation> mine = Of(stepped.world(), 0);
  ASSERT_EQ(mine.size(), 1u);
  EXPECT_EQ(mine[0].agreed, kNever);
  EXPECT_THAT(Of(stepped.world(), 1), IsEmpty());
  EXPECT_OK(stepped.region(1).AcquireSlot());
  mine = Of(stepped.world(), 0);
  EXPECT_LT(mine[0].agreed, kNever);
  EXPECT_EQ(mine[0].completed, kNever);  // nobody has run it yet
  EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
  EXPECT_LT(Of(stepped.world(), 0)[0].completed, kNever);
}

// The names of Regions that come and go are there as long as a rank's posts speak of them.
TEST(Flight, ARegionThatHasGoneIsStillNamed) {
  auto world = NewWorld(2);
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}, {.name = absl::StrCat("r", i)}));
    const auto post = [&](Rank& rank) -> absl::Status {
      MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
      return mine.AcquireSlot();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  }
  const std::vector<RecentOperation> mine = Of(*world, 1);
  ASSERT_EQ(mine.size(), 64u);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(mine[i].region, absl::StrCat("r", 200 - 64 + i));
}

TEST(Flight, ADisagreementBringsWhatTheRanksPostedLast) {
  auto world = NewWorld(2);
  Call good(*world, {}), one(*world, {.shape = {3}}), other(*world, {.shape = {5}});
  const auto post = [&](Rank& rank) -> absl::Status {
    for (int i = 0; i < 7; ++i) MP_RETURN_IF_ERROR(good.Post(rank.region()));
    return (rank.id() == 0 ? one : other).Post(rank.region());
  };
  const std::vector<absl::Status> told = Drive(*world, post);
  EXPECT_THAT(told, Each(KindIs(ErrorKind::kMismatch)));
  for (const absl::Status& status : told) {
    EXPECT_THAT(RecentOf(status), AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1: "),
                                        HasSubstr("AllReduce 6 of Region \"world\""),
                                        HasSubstr("AllReduce 7"), Not(HasSubstr("AllReduce 4"))));
    EXPECT_THAT(RecentOf(status), Not(HasSubstr("\n")));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(" ago")));
  }
  for (int id = 0; id < 2; ++id) EXPECT_TRUE(Of(*world, id).back().dropped);
  EXPECT_THAT(RecentOf(one.Post(world->region())), HasSubstr("AllReduce 7"));  // for ever
}

TEST(Flight, AnAbsenceBringsTheMissingRankFirst) {
  auto world = NewWorld(3, {.absence_timeout = absl::Milliseconds(50)});
  ASSERT_OK_AND_ASSIGN(Region pair, world->NewRegion({1, 2}, {.name = "pair"}));
  Progress told;
  std::vector<absl::Status> waited(3);
  const auto post = [&](Rank& rank) -> absl::Status {
    if (rank.id() > 0) {
      MP_ASSIGN_OR_RETURN(RankRegion mine, pair.ForRank(rank));
      MP_RETURN_IF_ERROR(mine.AcquireSlot());
    }
    if (rank.id() == 1) {
      told.AwaitAtLeast(2);
      return absl::OkStatus();
    }
    absl::Status& status = waited[At(rank.id())];
    status = rank.region().AcquireSlot();
    if (status.ok()) status = rank.stream().Synchronize();
    told.Add();
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (const int id : {0, 2}) {
    EXPECT_THAT(waited[At(id)], KindIs(ErrorKind::kAbsentShard));
    const std::string recent = RecentOf(waited[At(id)]);
    EXPECT_THAT(recent, ::testing::StartsWith("rank 1: AcquireSlot 0 of Region \"pair\""));
    EXPECT_THAT(recent, HasSubstr("AcquireSlot 0 of Region \"world\""));
  }
}

TEST(Flight, ItCanBeAskedAtAnyMoment) {
  auto world = NewWorld(3);
  Call call(*world, {.kind = OpKind::kAllGather});
  std::atomic<bool> over{false};
  OnThreads(2, [&](int which) {
    if (which == 0) {
      const auto post = [&](Rank& rank) -> absl::Status {
        for (int i = 0; i < 500; ++i) MP_RETURN_IF_ERROR(call.Post(rank.region()));
        return absl::OkStatus();
      };
      EXPECT_THAT(Drive(*world, post), Each(IsOk()));
      over = true;
      return;
    }
    while (!over) {
      std::map<int, uint64_t> last;
      for (const RecentOperation& operation : world->Recent()) {
        const auto [at, first] = last.try_emplace(operation.rank, operation.sequence);
        if (!first) {
          EXPECT_EQ(operation.sequence, at->second + 1);
          at->second = operation.sequence;
        }
        EXPECT_LT(operation.posted, kNever);
        if (operation.agreed != kNever) {
          EXPECT_LE(operation.posted, operation.agreed);
        }
      }
    }
  });
  EXPECT_OK(world->Close());
  EXPECT_EQ(Of(*world, 0).size(), 64u);
}

}  // namespace
}  // namespace mp::test
