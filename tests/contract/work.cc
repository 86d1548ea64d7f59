// The overlapped forms and their Work: what waits for it, when it is done, what it tells.
// STR-3: waiting for operation k ends with k, not with k - 1 or k + 1.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

bool TimedOut(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) && KindOf(status) == ErrorKind::kNone;
}

TEST(Work, OnTheHostIsDoneAfterSynchronize) {
  for (const Door door : {Door::kRun, Door::kAttach}) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(3);
    for (const CallSpec& spec : OneOfEach()) {
      Call call(*world, spec);
      const auto post = [&](Rank& rank) -> absl::Status {
        MP_ASSIGN_OR_RETURN(Work work, call.Start(rank.region()));
        MP_RETURN_IF_ERROR(work.Synchronize());
        EXPECT_TRUE(work.Done());
        EXPECT_OK(work.status());
        EXPECT_OK(work.Synchronize(absl::ZeroDuration()));
        return work.Wait(rank.stream());
      };
      EXPECT_THAT(Drive(*world, door, post), Each(IsOk()));
      call.ExpectDone();
    }
  }
}

TEST(Work, AStreamThatWaitsSeesTheResult) {
  SKIP_UNLESS(doors_never_wait);
  for (const CallSpec& spec : OneOfEach()) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      SCOPED_TRACE(absl::StrCat(spec.ToString(), " schedule ", seed));
      SteppedWorld stepped(3, seed);
      Call call(stepped.world(), spec);
      int seen = 0;
      for (int id = 0; id < 3; ++id) {
        ASSERT_OK_AND_ASSIGN(Work work, call.Start(stepped.region(id)));
        EXPECT_OK(work.Wait(stepped.rank(id).stream()));
        EXPECT_OK(stepped.rank(id).stream().Launch(Under().kernel([&call, &seen, id] {
          if (!call.output(id).is_null()) {
            EXPECT_EQ(FirstDifference(call.spec().dtype, ReadElements(call.output(id)),
                                      call.expected(), true),
                      "");
          }
          ++seen;
        })));
      }
      EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
      EXPECT_EQ(seen, 3);
      call.ExpectDone();
    }
  }
}

TEST(Work, StartsAfterWhatTheComputeStreamHolds) {
  SKIP_UNLESS(doors_never_wait);
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("schedule ", seed));
    SteppedWorld stepped(2, seed);
    Call call(stepped.world(), {.kind = OpKind::kAllGather, .shape = {2, 0}});
    std::vector<Work> works;
    for (int id = 0; id < 2; ++id) {
      WriteElements(call.input(id), Bytes(call.contents(id).size(), 0xEE));
      EXPECT_OK(stepped.rank(id).stream().Launch(
          Under().kernel([&call, id] { WriteElements(call.input(id), call.contents(id)); })));
      ASSERT_OK_AND_ASSIGN(Work work, call.Start(stepped.region(id)));
      works.push_back(work);
    }
    for (const Work& work : works) EXPECT_OK(work.Synchronize());
    call.ExpectDone();
  }
}

TEST(Work, LeavesTheComputeStreamFree) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(2);
  Attachment rank = world->Attach(0).value(), peer = world->Attach(1).value();
  Call call(*world, {.kind = OpKind::kAllGather});
  ASSERT_OK_AND_ASSIGN(Work work, call.Start(rank->region()));
  bool ran = false;
  EXPECT_OK(rank->stream().Launch(Under().kernel([&] { ran = true; })));
  EXPECT_OK(rank->stream().Synchronize());  // though the operation waits for its peer
  EXPECT_TRUE(ran);
  EXPECT_FALSE(work.Done());
  EXPECT_OK(work.status());
  ASSERT_OK_AND_ASSIGN(Work other, call.Start(peer->region()));
  EXPECT_OK(work.Synchronize());
  EXPECT_OK(other.Synchronize());
  call.ExpectDone();
}

void ExpectWorksEndOneByOne(World& world, RankRegion& rank, RankRegion& peer) {
  constexpr size_t kOperations = 6;
  std::deque<Call> calls;
  std::vector<Work> works;
  for (size_t i = 0; i < kOperations; ++i) {
    calls.emplace_back(world, CallSpec{.kind = OpKind::kAllGather});
    works.push_back(calls.back().Start(rank).value());
  }
  for (size_t k = 0; k < kOperations; ++k) {
    EXPECT_FALSE(works[k].Done());
    EXPECT_TRUE(TimedOut(works[k].Synchronize(absl::ZeroDuration())));
    EXPECT_OK(works[k].status());
    EXPECT_OK(calls[k].Start(peer));
    EXPECT_OK(works[k].Synchronize());
    EXPECT_TRUE(works[k].Done());
    calls[k].ExpectDone();
  }
}

TEST(Str3, WaitingForAnOperationEndsWithThatOperation) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(2);
  Attachment rank = world->Attach(0).value(), peer = world->Attach(1).value();
  ExpectWorksEndOneByOne(*world, rank->region(), peer->region());
  SteppedWorld stepped(2);
  ExpectWorksEndOneByOne(stepped.world(), stepped.region(0), stepped.region(1));
}

TEST(Str3, AnEventEndsWithTheWorkBeforeIt) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(2);
  Attachment rank = world->Attach(0).value(), peer = world->Attach(1).value();
  EXPECT_TRUE(Event().Done());
  EXPECT_OK(Event().Synchronize());
  std::vector<Event> events;
  for (int i = 0; i < 4; ++i) {
    EXPECT_OK(rank->region().AcquireSlot());
    events.push_back(rank->stream().Record());
  }
  for (const Event& event : events) {
    EXPECT_FALSE(event.Done());
    EXPECT_TRUE(TimedOut(event.Synchronize(absl::ZeroDuration())));
    EXPECT_OK(peer->region().AcquireSlot());
    EXPECT_OK(event.Synchronize());
    EXPECT_TRUE(event.Done());
  }
}

TEST(Work, TellsAMismatch) {
  for (const Door door : RankDoors()) {
    SCOPED_TRACE(Name(door));
    auto world = NewWorld(2);
    Call one(*world, {.shape = {3}}), other(*world, {.shape = {5}});
    std::vector<std::optional<Work>> works(2);
    std::vector<absl::Status> posted(2);
    Drive(*world, door, [&](Rank& rank) -> absl::Status {
      const auto id = At(rank.id());
      auto work = (id == 0 ? one : other).Start(rank.region());
      posted[id] = work.status();
      if (work.ok()) works[id] = *work;
      if (door != Door::kOneThread && work.ok()) posted[id] = work->Synchronize();
      return absl::OkStatus();
    });
    for (size_t id = 0; id < 2; ++id) {
      absl::Status told = posted[id];
      if (told.ok()) told = works[id]->Synchronize();
      EXPECT_THAT(told, KindIs(ErrorKind::kMismatch, HasSubstr("[5]")));
      if (!works[id].has_value()) continue;
      EXPECT_TRUE(works[id]->Done());
      EXPECT_THAT(works[id]->status(), KindIs(ErrorKind::kMismatch));
      EXPECT_THAT(works[id]->Synchronize(), KindIs(ErrorKind::kMismatch));
      EXPECT_THAT(works[id]->Wait(world->stream(static_cast<int>(id))),
                  KindIs(ErrorKind::kMismatch));
    }
    one.ExpectUntouched();
    other.ExpectUntouched();
  }
}

TEST(Work, ThatWentWellStaysWellWhenALaterOneFails) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2);
  Call good(stepped.world(), {.kind = OpKind::kAllGather});
  Call one(stepped.world(), {.shape = {3}}), other(stepped.world(), {.shape = {5}});
  ASSERT_OK_AND_ASSIGN(Work well, good.Start(stepped.region(0)));
  EXPECT_OK(good.Start(stepped.region(1)));
  ASSERT_OK_AND_ASSIGN(Work badly, one.Start(stepped.region(0)));
  const absl::Status told = other.Start(stepped.region(1)).status();
  EXPECT_OK(well.Synchronize());
  EXPECT_OK(well.status());
  EXPECT_THAT(badly.Synchronize(), KindIs(ErrorKind::kMismatch));
  good.ExpectDone();
}

TEST(Work, OfTheOneCallDoorIsOneForEachRank) {
  auto world = NewWorld(3);
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kGather, OpKind::kAllGather}) {
    for (const Inputs inputs : {Inputs::kInPlace, Inputs::kApart}) {
      Call call(*world, {.kind = kind, .shape = {2, 4}, .inputs = inputs});
      ASSERT_OK_AND_ASSIGN(std::vector<Work> works, call.Start(world->region()));
      ASSERT_EQ(works.size(), 3u);
      for (const Work& work : works) EXPECT_OK(work.Synchronize());
      call.ExpectDone();
    }
  }
}

TEST(Work, OfNothingIsDone) {
  EXPECT_TRUE(Work().Done());
  EXPECT_OK(Work().status());
  EXPECT_OK(Work().Synchronize());
  auto world = NewWorld(1);
  EXPECT_OK(Work().Wait(world->stream(0)));
}

TEST(Tmo1, ANegativeTimeoutIsInvalidAndHugeOnesAreSafe) {
  auto world = NewWorld(2);
  Call call(*world, {.kind = OpKind::kAllGather});
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(Work work, call.Start(rank.region()));
    const absl::Duration below = -absl::Nanoseconds(1);
    EXPECT_THAT(work.Synchronize(below), KindIs(ErrorKind::kInvalidArgument));
    EXPECT_THAT(rank.stream().Synchronize(below), KindIs(ErrorKind::kInvalidArgument));
    EXPECT_THAT(rank.stream().Record().Synchronize(below), KindIs(ErrorKind::kInvalidArgument));
    EXPECT_OK(work.Synchronize(absl::InfiniteDuration()));
    return rank.stream().Synchronize(absl::Hours(24) * 365 * 1000);
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  EXPECT_THAT(world->Synchronize(-absl::Seconds(1)), KindIs(ErrorKind::kInvalidArgument));
  call.ExpectDone();
}

}  // namespace
}  // namespace mp::test
