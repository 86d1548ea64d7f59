// What once went wrong: each test is the smallest program that showed it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// The way back to an operation leads past one that waits for a rank which has not posted: two of
// four Regions are crossed, and it must be seen whatever else the ranks wait for.
void PostCrossed(const std::vector<int>& ranks_of_x) {
  SteppedWorld stepped(5);
  World& world = stepped.world();
  ASSERT_OK_AND_ASSIGN(Region a, world.NewRegion({0, 1}, {.name = "a"}));
  ASSERT_OK_AND_ASSIGN(Region x, world.NewRegion(ranks_of_x, {.name = "x"}));
  ASSERT_OK_AND_ASSIGN(Region b, world.NewRegion({2, 3}, {.name = "b"}));
  ASSERT_OK_AND_ASSIGN(Region c, world.NewRegion({3, 4}, {.name = "c"}));
  const auto post = [&](int rank, const Region& region) {
    return region.ForRank(stepped.rank(rank)).value().AcquireSlot();
  };
  EXPECT_OK(post(3, c));
  EXPECT_OK(post(3, b));
  EXPECT_OK(post(2, b));
  EXPECT_OK(post(2, x));
  EXPECT_OK(post(0, a));
  EXPECT_OK(post(0, x));
  EXPECT_OK(post(1, x));
  EXPECT_THAT(post(1, a), KindIs(ErrorKind::kMismatch, HasSubstr("crossed orders")));
  EXPECT_OK(post(4, c));
  EXPECT_THAT(stepped.Synchronize(0), KindIs(ErrorKind::kMismatch, HasSubstr("\"x\"")));
  EXPECT_OK(stepped.Synchronize(3));
  EXPECT_OK(stepped.Synchronize(4));
  EXPECT_EQ(stepped.clock().Now(), absl::ZeroDuration());
  EXPECT_OK(b.status());
  EXPECT_OK(c.status());
}

TEST(Ord3, CrossedOrdersAreSeenBesideOperationsThatWaitForOthers) {
  SKIP_UNLESS(doors_never_wait);
  // Whichever of x's ranks is looked at first: the way by rank 2 leads nowhere.
  PostCrossed({0, 1, 2});
  PostCrossed({2, 1, 0});
}

TEST(World, AnOverlappedOperationsErrorIsTheOneOfItsOwnRun) {
  auto world = NewWorld(2);
  Call lost(*world, {.inputs = Inputs::kInPlace});
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}));
  EXPECT_THAT(world->Run([&](Rank& rank) -> absl::Status {
    if (rank.id() == 1) return absl::OkStatus();
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    return lost.Start(mine).status();
  }),
              KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
  EXPECT_OK(world->Run([](Rank& rank) { return rank.stream().Synchronize(); }));
}

TEST(Attach, WhatADriverDidNotAskForIsNotToldToTheNext) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(2);
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}));
  {
    Attachment rank = world->Attach(0).value(), peer = world->Attach(1).value();
    EXPECT_OK(region.ForRank(*rank).value().AcquireSlot());
  }
  EXPECT_THAT(region.status(), KindIs(ErrorKind::kAbsentShard));
  EXPECT_OK(world->Run([](Rank& rank) { return rank.stream().Synchronize(); }));
}

TEST(Region, IsNotLetGoOfWhileItsStreamsHoldWork) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2);
  World& world = stepped.world();
  Call call(world, {.kind = OpKind::kAllGather});
  for (int id = 0; id < 2; ++id) {
    EXPECT_OK(stepped.rank(id).stream().Launch(Under().kernel([] {})));
  }
  {
    ASSERT_OK_AND_ASSIGN(Region region, world.NewRegion({0, 1}));
    for (int id = 0; id < 2; ++id) {
      ASSERT_OK_AND_ASSIGN(RankRegion mine, region.ForRank(stepped.rank(id)));
      EXPECT_OK(call.Start(mine).status());
    }
  }
  for (int i = 0; i < 3; ++i) EXPECT_OK(world.NewRegion({0, 1}).status());
  EXPECT_OK(world.Synchronize());
  call.ExpectDone();
}

TEST(Stream, MayGoWithWorkInIt) {
  SKIP_UNLESS(runs_unwatched);
  auto world = NewWorld(1);
  int ran = 0;
  for (int round = 0; round < 20; ++round) {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Stream> stream, world->device(0).NewStream());
    for (int i = 0; i < 5; ++i) EXPECT_OK(stream->Launch(Under().kernel([&ran] { ++ran; })));
  }
  EXPECT_EQ(ran, 100);
}

// An operation that stood behind one which comes to nothing is issued, though nobody posts again.
TEST(Ord3, WhatAClosedRegionWasInTheWayOfIsIssued) {
  auto world = NewWorld(3, {.rank_threads = false, .absence_timeout = absl::InfiniteDuration()});
  ASSERT_OK_AND_ASSIGN(Region two, world->NewRegion({0, 1}));
  Call never(*world, {.kind = OpKind::kAllGather});
  Call call(*world, {0, 1}, {.shape = {5}});
  {
    std::vector<Attachment> ranks;
    for (int id = 0; id < 2; ++id) ranks.push_back(world->Attach(id).value());
    std::vector<Work> works;
    for (Attachment& rank : ranks) EXPECT_OK(never.Start(rank->region()));
    for (Attachment& rank : ranks) {
      RankRegion mine = two.ForRank(*rank).value();
      ASSERT_OK_AND_ASSIGN(Work work, call.Start(mine));
      works.push_back(work);
    }
    world->region().Close();
    for (Work& work : works) EXPECT_OK(work.Synchronize());
  }
  call.ExpectDone();
  never.ExpectUntouched();
}

TEST(Abs1, ADeadlineHoldsForWhoeverWaitsOnWhateverStream) {
  SKIP_UNLESS(doors_never_wait);
  for (const bool poll : {false, true}) {
    auto world = NewWorld(2, {.rank_threads = false, .absence_timeout = absl::Milliseconds(20)});
    Attachment rank = world->Attach(0).value();
    Call call(*world, {.inputs = Inputs::kInPlace});
    ASSERT_OK_AND_ASSIGN(Work work, call.Start(rank->region()));
    if (poll) {
      while (absl::IsDeadlineExceeded(rank->stream().Synchronize(absl::ZeroDuration())) ||
             work.status().ok()) {
        static_cast<void>(work.Synchronize(absl::ZeroDuration()));
      }
    } else {
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Stream> other, rank->device().NewStream());
      EXPECT_OK(work.Wait(*other));
      EXPECT_OK(other->Synchronize());
    }
    EXPECT_THAT(work.status(), KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
  }
}

TEST(Ree4, TheLogMayAskTheLibrary) {
  SKIP_UNLESS(doors_never_wait);
  Region* region = nullptr;
  int lines = 0;
  WorldOptions options{.absence_timeout = absl::Seconds(60), .absence_warning = absl::Seconds(10)};
  options.log = [&](absl::string_view line) {
    ++lines;
    EXPECT_THAT(std::string(line), HasSubstr("rank 1"));
    EXPECT_OK(region->status());
  };
  SteppedWorld stepped(2, 1, options);
  stepped.Away(1);
  region = &stepped.world().region();
  EXPECT_OK(stepped.region(0).AcquireSlot());
  EXPECT_THAT(stepped.Synchronize(0), KindIs(ErrorKind::kAbsentShard));
  EXPECT_EQ(lines, 1);
}

// What the log waits for is held by a thread that waits for mp.
TEST(Ree4, TheLogMayWaitForAThreadThatWaitsInTheLibrary) {
  SKIP_UNLESS(runs_unwatched);
  for (const bool same_world : {true, false}) {
    Progress in_log, looked;
    WorldOptions options{.rank_threads = false, .absence_warning = absl::Milliseconds(1)};
    options.log = [&](absl::string_view) {
      in_log.Add();
      looked.AwaitAtLeast(1);
    };
    const std::shared_ptr<Backend> backend = NewBackend(2);
    auto world = World::Create(backend, options).value();
    auto other = World::Create(backend, {.rank_threads = false}).value();
    Progress release;
    Stream& stream = (same_world ? *world : *other).stream(1);
    EXPECT_OK(stream.Launch(Under().kernel([&] { release.AwaitAtLeast(1); })));
    OnThreads(3, [&](int which) {
      if (which == 0) {
        Attachment rank = world->Attach(0).value();
        absl::Status told = rank->region().AcquireSlot();
        if (told.ok()) told = rank->stream().Synchronize();
        EXPECT_THAT(told, KindIs(ErrorKind::kCancelled));
      } else if (which == 1) {
        in_log.AwaitAtLeast(1);
        EXPECT_TRUE(absl::IsDeadlineExceeded(stream.Synchronize(absl::Milliseconds(20))));
        looked.Add();
        world->region().Cancel("enough");
      } else {
        // A broken library is not waited for.
        for (int i = 0; i < 10'000 && looked.value() == 0; ++i) {
          sync::Atomic<uint32_t> never{0};
          sync::Clock::Steady().Wait(never, 0, absl::Milliseconds(1));
        }
        EXPECT_EQ(looked.value(), 1) << "the wait of 20 ms is not over after 10 s";
        looked.Add();
      }
    });
    release.Add();
    EXPECT_OK(world->Synchronize());
    EXPECT_OK(other->Synchronize());
  }
}

TEST(Region, MadeByRanksKeepsStepAfterAFailedRunAndAWrongCall) {
  auto world = NewWorld(2);
  EXPECT_FALSE(world
                   ->Run([](Rank& rank) -> absl::Status {
                     if (rank.id() == 1) return absl::DataLossError("no such file");
                     return rank.NewRegion({0, 1}).status();
                   })
                   .ok());
  for (int round = 0; round < 3; ++round) {
    Call call(*world, {.kind = OpKind::kAllGather, .seed = At(round)});
    EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
      EXPECT_THAT(rank.NewRegion({0, 1}, {.max_lead = 0}), KindIs(ErrorKind::kInvalidArgument));
      MP_ASSIGN_OR_RETURN(RankRegion mine, rank.NewRegion({0, 1}));
      return call.Post(mine);
    }));
    call.ExpectDone();
  }
}

TEST(Batch, OfOneRankHasNoEffectWhereOneOfItsStepsIsWrong) {
  auto world = NewWorld(1);
  Call right(*world, {.kind = OpKind::kAllReduce, .shape = {4}});
  Tensor shard(world->device(0), DType::kF32, {2}), wide(world->device(0), DType::kF32, {3});
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    Batch batch = rank.region().NewBatch();
    MP_RETURN_IF_ERROR(right.AddTo(batch, 0));
    MP_RETURN_IF_ERROR(batch.AllGather(shard.view(), wide.view()));
    EXPECT_THAT(batch.End(),
                KindIs(ErrorKind::kInvalidArgument, AllOf(HasSubstr("2"), HasSubstr("3"))));
    return absl::OkStatus();
  }));
  right.ExpectUntouched();
}

TEST(Mis4, NumbersThatAreNoDTypeOrOperationAreRefused) {
  auto world = NewWorld(2);
  float x[2] = {1, 2};
  const auto post = [&](Rank& rank) -> absl::Status {
    const TensorView view(&x[rank.id()], DType::kF32, {1});
    EXPECT_THAT(rank.region().AllReduce(view, {.op = static_cast<ReduceOp>(77)}),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr("77")));
    const TensorView odd(&x[rank.id()], static_cast<DType>(99), {1});
    EXPECT_THAT(rank.region().AllReduce(odd), KindIs(ErrorKind::kInvalidArgument, HasSubstr("99")));
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
}

// Attach has asked a stream for its errors while it held what the stream, not being empty, asks
// for.
TEST(World, ARankWhoseStreamIsBusyIsAttached) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(1);
  Progress released;
  bool ran = false;
  EXPECT_OK(world->stream(0).Launch(Under().kernel([&] {
    released.AwaitAtLeast(Under().runs_unwatched ? 1 : 0);  // else a look at the stream runs it
    ran = true;
  })));
  const Attachment rank = world->Attach(0).value();
  released.Add();
  EXPECT_OK(rank->stream().Synchronize());
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace mp::test
