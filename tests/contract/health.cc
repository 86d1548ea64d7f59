// ABS-4: World::Health tells every rank's progress, what it waits for and how the World stands, at
// any moment and from any thread, and waits for nothing that runs.

#include "mp/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using State = WorldHealth::State;
using Place = RankHealth::Place;

TEST(Health, ANewWorldHasNothingToTell) {
  auto world = NewWorld(3);
  const WorldHealth health = world->Health();
  EXPECT_EQ(health.state, State::kOk);
  EXPECT_EQ(health.cause, "");
  EXPECT_THAT(health.failed_regions, IsEmpty());
  ASSERT_EQ(health.ranks.size(), 3u);
  for (int id = 0; id < 3; ++id) {
    const RankHealth& rank = health.ranks[At(id)];
    EXPECT_EQ(rank.rank, id);
    EXPECT_FALSE(rank.finished.has_value());
    EXPECT_FALSE(rank.pending.has_value());
    EXPECT_EQ(rank.place, Place::kUndriven);
  }
}

TEST(Health, WhatHasRunIsFinishedOnBothStreams) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    ASSERT_OK_AND_ASSIGN(Region pair, world->NewRegion({2, 0}, {.name = "pair"}));
    Call sum(*world, {.shape = {3, 5}});
    Call join(*world, {2, 0}, {.kind = OpKind::kAllGather, .shape = {2, 0}, .extents = {3, 1}});
    const auto post = [&](Rank& rank) -> absl::Status {
      for (int i = 0; i < 4; ++i) MP_RETURN_IF_ERROR(sum.Post(rank.region()));
      if (rank.id() == 1) return absl::OkStatus();
      MP_ASSIGN_OR_RETURN(RankRegion mine, pair.ForRank(rank));
      MP_ASSIGN_OR_RETURN(Work work, join.Start(mine));
      return work.Wait(rank.stream());
    };
    EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    const WorldHealth health = world->Health();
    EXPECT_EQ(health.state, State::kOk);
    for (int id = 0; id < 3; ++id) {
      SCOPED_TRACE(id);
      const RankHealth& rank = health.ranks[At(id)];
      EXPECT_FALSE(rank.pending.has_value()) << ToString(health);
      ASSERT_TRUE(rank.finished.has_value()) << ToString(health);
      EXPECT_EQ(rank.finished->region, id == 1 ? "world" : "pair");
      EXPECT_EQ(rank.finished->name, id == 1 ? "AllReduce" : "AllGather");
      EXPECT_EQ(rank.finished->sequence, id == 1 ? 3u : 0u);
      EXPECT_THAT(rank.missing, IsEmpty());
    }
  }
}

// Every rank by itself: who waits, for whom and for how long, and who does something else.
TEST(Health, ARankThatWaitsTellsForWhom) {
  auto world = NewWorld(3, {.absence_timeout = absl::InfiniteDuration()});
  Call call(*world, {.kind = OpKind::kAllGather});
  Progress posted, asked;
  std::vector<absl::Status> told(3);
  WorldHealth health;
  OnThreads(2, [&](int which) {
    if (which == 0) {
      told = Drive(*world, [&](Rank& rank) -> absl::Status {
        MP_RETURN_IF_ERROR(call.Post(rank.region()));
        MP_RETURN_IF_ERROR(rank.stream().Synchronize());
        posted.Add();
        if (rank.id() == 1) asked.AwaitAtLeast(1);
        return call.Post(rank.region());
      });
      return;
    }
    posted.AwaitAtLeast(3);
    const auto waits = [&](int id) { return health.ranks[At(id)].place == Place::kWaiting; };
    do {
      health = world->Health();
    } while (!waits(0) || !waits(2));
    asked.Add();
  });
  EXPECT_THAT(told, Each(IsOk()));
  EXPECT_EQ(health.state, State::kOk);
  for (const int id : {0, 2}) {
    const RankHealth& rank = health.ranks[At(id)];
    ASSERT_TRUE(rank.finished.has_value());
    EXPECT_EQ(rank.finished->sequence, 0u);
    ASSERT_TRUE(rank.pending.has_value());
    EXPECT_EQ(rank.pending->name, "AllGather");
    EXPECT_EQ(rank.pending->sequence, 1u);
    EXPECT_GT(rank.age, absl::ZeroDuration());
    EXPECT_THAT(rank.missing, ElementsAre(1));
    EXPECT_THAT(rank.where,
                ::testing::AnyOf(HasSubstr(absl::StrCat("rank ", id)), HasSubstr("operation 1")));
    EXPECT_THAT(ToString(health), HasSubstr("AllGather 1 of Region \"world\""));
  }
  EXPECT_EQ(health.ranks[1].place, Place::kBusy);
  EXPECT_EQ(health.ranks[1].finished->sequence, 0u);
  EXPECT_FALSE(health.ranks[1].pending.has_value());
  call.ExpectDone();
}

// The oldest is told, also where the rank's ring has forgotten it.
TEST(Health, TheOldestOperationIsToldHoweverFarARankIsAhead) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2);
  EXPECT_OK(stepped.region(0).AcquireSlot());
  EXPECT_OK(stepped.region(1).AcquireSlot());
  EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
  Call call(stepped.world(), {.kind = OpKind::kAllGather});
  EXPECT_OK(call.Post(stepped.region(0)));
  for (int i = 0; i < 200; ++i) EXPECT_OK(stepped.region(0).AcquireSlot());
  const RankHealth rank = stepped.world().Health().ranks[0];
  ASSERT_TRUE(rank.pending.has_value());
  EXPECT_EQ(rank.pending->sequence, 1u);
  EXPECT_EQ(rank.pending->name, "AllGather");
  EXPECT_EQ(rank.pending->bytes, call.input(0).size_bytes());
  EXPECT_FALSE(rank.pending->overlaps);
  EXPECT_THAT(rank.missing, ElementsAre(1));
  // Agreed on, and not run.
  EXPECT_OK(call.Post(stepped.region(1)));
  const WorldHealth agreed = stepped.world().Health();
  ASSERT_TRUE(agreed.ranks[1].pending.has_value());
  EXPECT_EQ(agreed.ranks[1].pending->sequence, 1u);
  EXPECT_THAT(agreed.ranks[1].missing, IsEmpty());
  EXPECT_EQ(agreed.ranks[1].finished->sequence, 0u);
  for (int i = 0; i < 200; ++i) EXPECT_OK(stepped.region(1).AcquireSlot());
  EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
  for (const RankHealth& one : stepped.world().Health().ranks) {
    EXPECT_EQ(one.finished->sequence, 201u);
    EXPECT_FALSE(one.pending.has_value());
  }
}

// What stands still behind compute is not finished: an answer comes while it stands.
TEST(Health, ItIsToldWhileAnOperationStandsStill) {
  SKIP_UNLESS(runs_unwatched);
  auto world = NewWorld(2, {.rank_threads = false});
  Call call(*world, {});
  EXPECT_OK(call.Post(world->region()));
  EXPECT_OK(world->Synchronize());
  Progress started, release;
  EXPECT_OK(world->stream(1).Launch(Under().kernel([&] {
    started.Add();
    release.AwaitAtLeast(1);
  })));
  EXPECT_OK(call.Post(world->region()));
  started.AwaitAtLeast(1);
  for (int id = 0; id < 2; ++id) {
    const WorldHealth health = world->Health();
    ASSERT_TRUE(health.ranks[At(id)].pending.has_value()) << ToString(health);
    EXPECT_EQ(health.ranks[At(id)].pending->sequence, 1u);
    EXPECT_THAT(health.ranks[At(id)].missing, IsEmpty());
    EXPECT_EQ(health.ranks[At(id)].finished->sequence, 0u);
  }
  release.Add();
  EXPECT_OK(world->Synchronize());
  EXPECT_EQ(world->Health().ranks[1].finished->sequence, 1u);
}

TEST(Health, AFailedRegionIsToldUntilItHasGone) {
  auto world = NewWorld(2);
  ASSERT_OK_AND_ASSIGN(Region one, world->NewRegion({0, 1}, {.name = "one"}));
  ASSERT_OK_AND_ASSIGN(Region two, world->NewRegion({1, 0}, {.name = "two"}));
  two.Cancel("second thoughts");
  one.Cancel("enough");
  WorldHealth health = world->Health();
  EXPECT_EQ(health.state, State::kFailed);
  EXPECT_EQ(health.kind, ErrorKind::kCancelled);
  EXPECT_THAT(health.cause, HasSubstr("second thoughts"));  // the first
  ASSERT_EQ(health.failed_regions.size(), 2u);
  EXPECT_EQ(health.failed_regions[0].name, "two");
  EXPECT_EQ(health.failed_regions[1].name, "one");
  EXPECT_THAT(health.failed_regions[1].cause, HasSubstr("enough"));
  two = one;
  health = world->Health();
  ASSERT_EQ(health.failed_regions.size(), 1u);
  EXPECT_THAT(health.cause, HasSubstr("enough"));
  one = two = world->NewRegion({0, 1}).value();
  EXPECT_EQ(world->Health().state, State::kOk) << ToString(world->Health());
  one.Close();  // is no failure
  EXPECT_EQ(world->Health().state, State::kOk);
}

// What came to nothing is neither finished nor pending.
TEST(Health, ADroppedOperationIsNotPending) {
  auto world = NewWorld(2);
  Call good(*world, {}), one(*world, {.shape = {3}}), other(*world, {.shape = {5}});
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_RETURN_IF_ERROR(good.Post(rank.region()));
    return (rank.id() == 0 ? one : other).Post(rank.region());
  };
  EXPECT_THAT(Drive(*world, post), Each(KindIs(ErrorKind::kMismatch)));
  const WorldHealth health = world->Health();
  EXPECT_EQ(health.state, State::kFailed);
  EXPECT_EQ(health.kind, ErrorKind::kMismatch);
  for (const RankHealth& rank : health.ranks) {
    EXPECT_EQ(rank.finished->sequence, 0u);
    EXPECT_FALSE(rank.pending.has_value());
  }
}

TEST(Health, AClosedWorldSaysSo) {
  auto world = NewWorld(2);
  Call call(*world, {});
  EXPECT_OK(call.Post(world->region()));
  EXPECT_OK(world->Close());
  const WorldHealth health = world->Health();
  EXPECT_EQ(health.state, State::kClosed);
  EXPECT_THAT(health.failed_regions, IsEmpty());
  EXPECT_EQ(health.ranks[1].finished->sequence, 0u);
}

TEST(Health, ARankThatHasEndedSaysHow) {
  auto world = NewWorld(2);
  Progress started, asked;
  absl::Status ran;
  OnThreads(2, [&](int which) {
    if (which == 0) {
      ran = world->Run([&](Rank& rank) {
        started.Add();
        if (rank.id() == 0) asked.AwaitAtLeast(1);
        return absl::OkStatus();
      });
      return;
    }
    started.AwaitAtLeast(2);
    while (world->Health().ranks[1].place != Place::kLeft) sync::Yield();
    EXPECT_THAT(world->Health().ranks[1].where, HasSubstr("returned OK"));
    EXPECT_EQ(world->Health().ranks[0].place, Place::kBusy);
    asked.Add();
  });
  EXPECT_OK(ran);
  EXPECT_EQ(world->Health().ranks[1].place, Place::kUndriven);
}

TEST(Health, ItCanBeAskedAtAnyMoment) {
  auto world = NewWorld(3);
  Call call(*world, {.kind = OpKind::kAllGather});
  std::atomic<bool> over{false};
  OnThreads(2, [&](int which) {
    if (which == 0) {
      for (int round = 0; round < 3; ++round) {
        ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({2, 1, 0}));
        const auto post = [&](Rank& rank) -> absl::Status {
          MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
          for (int i = 0; i < 30; ++i) {
            MP_RETURN_IF_ERROR(mine.AcquireSlot());
            MP_ASSIGN_OR_RETURN(Work work, call.Start(rank.region()));
            MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
          }
          return absl::OkStatus();
        };
        EXPECT_THAT(Drive(*world, post), Each(IsOk()));
      }
      over = true;
      return;
    }
    uint64_t last = 0;
    while (!over) {
      const WorldHealth health = world->Health();
      EXPECT_EQ(health.state, State::kOk);
      EXPECT_THAT(ToString(health), HasSubstr("World: ok"));
      sync::Yield();
      const auto& pending = health.ranks[1].pending;
      if (!Under().tells_the_end || !pending.has_value() || pending->region != "world") continue;
      EXPECT_GE(pending->sequence, last);
      last = pending->sequence;
    }
  });
}

}  // namespace
}  // namespace mp::test
