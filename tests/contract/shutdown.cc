// SHUT-1, SHUT-4, SHUT-5: closing wakes everybody, from any thread, any number of times, and what
// is closed says so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

WorldOptions Forever() { return {.absence_timeout = absl::InfiniteDuration()}; }

// Goes round after round until something ends it; counts the rounds.
absl::Status GoRound(Rank& rank, RankRegion& region, const Call& call, Progress& rounds) {
  for (;;) {
    MP_RETURN_IF_ERROR(call.Post(region));
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    rounds.Add();
  }
}

TEST(Shut1, CloseEndsARunOnAnyThread) {
  for (const bool lead_of_one : {false, true}) {
    WorldOptions options = Forever();
    if (lead_of_one) options.max_lead = 1;
    auto world = NewWorld(3, options);
    Call call(*world, {.kind = OpKind::kAllGather});
    Progress rounds;
    std::vector<absl::Status> told(3);
    absl::Status ran;
    OnThreads(3, [&](int which) {
      if (which == 0) {
        ran = world->Run([&](Rank& rank) {
          return told[At(rank.id())] = GoRound(rank, rank.region(), call, rounds);
        });
        return;
      }
      rounds.AwaitAtLeast(20);
      EXPECT_OK(world->Close());
      EXPECT_OK(world->Close());
    });
    EXPECT_THAT(told, Each(KindIs(ErrorKind::kClosed)));
    EXPECT_THAT(ran, KindIs(ErrorKind::kClosed));
    call.ExpectDone();
  }
}

TEST(Shut1, CloseWakesARankThatWaitsForAPeer) {
  SKIP_UNLESS(doors_never_wait);
  const std::vector<std::function<absl::Status(Rank&, RankRegion&)>> waits = {
      [](Rank& rank, RankRegion&) { return rank.stream().Synchronize(); },
      [](Rank&, RankRegion& region) -> absl::Status {
        const TensorView nothing(nullptr, DType::kF32, {0});
        MP_ASSIGN_OR_RETURN(Work work, region.StartAllReduce(nothing));
        return work.Synchronize();
      },
      [](Rank&, RankRegion& region) -> absl::Status {  // until the lead is used up
        for (;;) MP_RETURN_IF_ERROR(region.AcquireSlot());
      },
  };
  for (const bool whole_world : {false, true}) {
    for (size_t i = 0; i < waits.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(whole_world ? "World, wait " : "Region, wait ", i));
      WorldOptions options = Forever();
      options.rank_threads = false;
      options.max_lead = 2;
      auto world = NewWorld(2, options);
      ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}, {.name = "tensor"}));
      Progress posted;
      absl::Status told;
      OnThreads(2, [&](int which) {
        if (which == 1) {
          posted.AwaitAtLeast(1);
          if (whole_world) {
            EXPECT_OK(world->Close());
          } else {
            region.Close();
            region.Close();
          }
          return;
        }
        Attachment rank = world->Attach(0).value();
        RankRegion mine = region.ForRank(*rank).value();
        told = mine.AcquireSlot();
        posted.Add();
        if (told.ok()) told = waits[i](*rank, mine);
      });
      EXPECT_THAT(told, KindIs(ErrorKind::kClosed));
      EXPECT_THAT(region.status(), KindIs(ErrorKind::kClosed, HasSubstr("tensor")));
    }
  }
}

TEST(Shut1, AgreedOperationsRunToTheirEnd) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SteppedWorld stepped(3, seed);
    Call agreed(stepped.world(), {.kind = OpKind::kAllGather});
    Call half(stepped.world(), {.inputs = Inputs::kInPlace});
    for (int id = 0; id < 3; ++id) EXPECT_OK(agreed.Post(stepped.region(id)));
    for (int id = 0; id < 2; ++id) EXPECT_OK(half.Post(stepped.region(id)));
    stepped.world().region().Close();
    EXPECT_THAT(half.Post(stepped.region(2)), KindIs(ErrorKind::kClosed));
    EXPECT_THAT(stepped.Synchronize(0), KindIs(ErrorKind::kClosed));
    EXPECT_THAT(stepped.Synchronize(1), KindIs(ErrorKind::kClosed));
    EXPECT_OK(stepped.Synchronize(2));
    agreed.ExpectDone();
    half.ExpectUntouched();
  }
}

TEST(Shut1, CloseOfTheWorldLetsAgreedOperationsRunToTheirEnd) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SteppedWorld stepped(3, seed);
    std::deque<Call> calls;
    for (int i = 0; i < 5; ++i) {
      calls.emplace_back(stepped.world(), CallSpec{.kind = OpKind::kAllGather, .seed = seed});
      for (int id = 0; id < 3; ++id) {
        EXPECT_OK(i % 2 == 0 ? calls.back().Post(stepped.region(id))
                             : calls.back().Start(stepped.region(id)).status());
      }
    }
    for (int id = 0; id < 3; ++id) stepped.Leave(id);
    EXPECT_OK(stepped.world().Close());
    for (const Call& call : calls) call.ExpectDone();
  }
}

TEST(Shut1, RegionsCloseInAnyOrderAndOnTheirOwn) {
  for (const Door door : RankDoors()) {
    auto world = NewWorld(2);
    std::vector<Region> regions;
    for (int i = 0; i < 6; ++i) regions.push_back(world->NewRegion({i % 2, 1 - i % 2}).value());
    for (const size_t closed : {3, 0, 5}) {
      regions[closed].Close();
      const auto post = [&](Rank& rank) -> absl::Status {
        for (const Region& region : regions) {
          MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
          const absl::Status told = mine.AcquireSlot();
          EXPECT_EQ(told.ok(), region.status().ok()) << told;
        }
        return absl::OkStatus();
      };
      EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
    }
    EXPECT_OK(world->Close());
  }
}

TEST(Shut1, CloseAfterAFailure) {
  auto world = NewWorld(2);
  Call one(*world, {.shape = {3}}), other(*world, {.shape = {5}});
  const auto post = [&](Rank& rank) { return (rank.id() == 0 ? one : other).Post(rank.region()); };
  EXPECT_THAT(Drive(*world, post), Each(KindIs(ErrorKind::kMismatch)));
  EXPECT_OK(world->Close());
  EXPECT_THAT(world->region().status(), KindIs(ErrorKind::kMismatch));  // the first cause
}

TEST(Shut1, CloseIsBoundedByItsTimeout) {
  SKIP_UNLESS(runs_unwatched);
  auto world = NewWorld(1, {.rank_threads = false, .close_timeout = absl::Milliseconds(50)});
  Progress started, release, ended;
  EXPECT_OK(world->stream(0).Launch(Under().kernel([&] {
    started.Add();
    release.AwaitAtLeast(1);
    ended.Add();
  })));
  started.AwaitAtLeast(1);
  const absl::Status looked = world->stream(0).Synchronize(absl::Milliseconds(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(looked)) << looked;
  const absl::Status told = world->Close();
  EXPECT_TRUE(absl::IsDeadlineExceeded(told)) << told;
  release.Add();
  ended.AwaitAtLeast(1);
  // The kernel has said that it is about to end.
  while (absl::IsDeadlineExceeded(world->Close())) {
  }
  EXPECT_OK(world->Close());
}

// However long a kernel may take, it must not be the thread with the timeout that runs it.
TEST(Shut1, AThreadThatWaitsForATimeDoesNotRunTheWorkItWaitsFor) {
  SKIP_UNLESS(runs_unwatched);
  for (const bool close : {false, true}) {
    auto world = NewWorld(8, {.rank_threads = false, .close_timeout = absl::Milliseconds(50)});
    Progress release, ended;
    std::atomic<int> run_by_the_waiter{0};
    const uint64_t waiter = sync::ThisThread();
    for (int id = 0; id < 8; ++id) {
      EXPECT_OK(world->stream(id).Launch(Under().kernel([&] {
        if (sync::ThisThread() == waiter) {
          ++run_by_the_waiter;
        } else {
          release.AwaitAtLeast(1);
        }
        ended.Add();
      })));
    }
    const absl::Status told =
        close ? world->Close() : world->stream(7).Synchronize(absl::Milliseconds(50));
    EXPECT_TRUE(absl::IsDeadlineExceeded(told)) << told;
    EXPECT_EQ(run_by_the_waiter, 0);
    release.Add();
    ended.AwaitAtLeast(8);
    while (absl::IsDeadlineExceeded(world->Close())) {  // the last has said that it is about to end
    }
  }
}

TEST(Shut1, AWorldIsDestroyedWithWorkPending) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(2);
  Call call(*world, {.inputs = Inputs::kInPlace});
  {
    Attachment rank = world->Attach(0).value();
    EXPECT_OK(call.Post(rank->region()));
    EXPECT_OK(call.Start(rank->region()));
  }
  call.ExpectUntouched();
  world->region().Close();
  EXPECT_OK(world->Close());
  call.ExpectUntouched();
}

TEST(Shut4, WhatIsClosedSaysSo) {
  auto world = NewWorld(2);
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}));
  Call call(*world, {.kind = OpKind::kAllGather, .shape = {4}, .inputs = Inputs::kInPlace});
  EXPECT_OK(world->Close());
  EXPECT_OK(world->Close());
  EXPECT_THAT(world->Run([](Rank&) { return absl::OkStatus(); }), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(world->Attach(0).status(), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(world->NewRegion({0, 1}).status(), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(call.Post(world->region()), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(call.Post(region), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(call.Start(region).status(), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(region.status(), KindIs(ErrorKind::kClosed));
  region.Close();
  call.ExpectUntouched();
}

TEST(Shut4, ARankOfAClosedWorldIsTold) {
  auto world = NewWorld(2, {.rank_threads = false});
  Attachment rank = world->Attach(0).value();
  Call call(*world, {.kind = OpKind::kAllGather});
  OnThreads(1, [&](int) { EXPECT_OK(world->Close()); });
  EXPECT_THAT(call.Post(rank->region()), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(call.Start(rank->region()).status(), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(rank->NewRegion({0, 1}).status(), KindIs(ErrorKind::kClosed));
  call.ExpectUntouched();
}

TEST(Shut5, AThreadDoesNotCloseTheWorldOfItsRank) {
  auto world = NewWorld(2, {.rank_threads = false});
  {
    Attachment rank = world->Attach(0).value();
    EXPECT_THAT(world->Close(), KindIs(ErrorKind::kUsageError));
  }
  EXPECT_OK(world->Close());
}

TEST(Shut5, ARankDoesNotCloseItsOwnWorld) {
  auto world = NewWorld(2);
  Call call(*world, {.kind = OpKind::kAllGather});
  const auto post = [&](Rank& rank) {
    EXPECT_THAT(rank.world().Close(), KindIs(ErrorKind::kUsageError));
    EXPECT_THAT(rank.world().Run([](Rank&) { return absl::OkStatus(); }),
                KindIs(ErrorKind::kUsageError));
    return call.Post(rank.region());
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  call.ExpectDone();
  EXPECT_OK(world->Close());
}

TEST(Shut3, WorldsComeAndGo) {
  const std::shared_ptr<Backend> backend = NewBackend(2);
  for (int i = 0; i < 200; ++i) {
    auto world = World::Create(backend, {}).value();
    if (i % 4 == 0) continue;  // unused
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({1, 0}));
    const auto post = [&](Rank& rank) -> absl::Status {
      MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
      return mine.AcquireSlot();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    if (i % 2 == 0) {
      EXPECT_OK(world->Close());
    }
  }
}

}  // namespace
}  // namespace mp::test
