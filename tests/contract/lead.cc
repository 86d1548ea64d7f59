// ORD-5: a rank runs ahead of the slowest by at most max_lead operations, then its next call waits,
// but not for ever; and the queues below hold as much as that.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::deque<Call> Calls(World& world, int count) {
  std::deque<Call> calls;
  for (int i = 0; i < count; ++i) {
    calls.emplace_back(world, CallSpec{.kind = i % 2 == 0 ? OpKind::kAllReduce : OpKind::kAllGather,
                                       .shape = {3},
                                       .seed = static_cast<uint64_t>(i)});
  }
  return calls;
}

absl::Status PostAll(const std::deque<Call>& calls, RankRegion& region) {
  for (const Call& call : calls) MP_RETURN_IF_ERROR(call.Post(region));
  return absl::OkStatus();
}

TEST(Ord5, ARankRunsAheadByMaxLeadAtMost) {
  SKIP_UNLESS(doors_never_wait);
  constexpr int kOperations = 30;
  for (const int lead : {1, 2, 4}) {
    SCOPED_TRACE(absl::StrCat("lead ", lead));
    auto world = NewWorld(3, {.max_lead = lead});
    const std::deque<Call> calls = Calls(*world, kOperations);
    std::vector<Progress> returned(3);  // calls that have returned, of ranks 0 and 2
    std::atomic<int> begun{0};          // calls that the slow rank 1 may have made
    const auto post = [&](Rank& rank) -> absl::Status {
      const auto id = At(rank.id());
      for (int i = 0; i < kOperations; ++i) {
        if (id == 1) {  // moves on when the others are as far ahead as they surely may be
          for (const size_t fast : {0, 2}) returned[fast].AwaitAtLeast(i + lead - 1);
          begun = i + 1;
        }
        const absl::Status status = calls[static_cast<size_t>(i)].Post(rank.region());
        if (id != 1) {
          EXPECT_LE(i + 1 - begun.load(), lead == 1 ? 0 : lead);
        }
        returned[id].Add();
        if (!status.ok()) returned[id].Release();
        MP_RETURN_IF_ERROR(status);
      }
      returned[id].Release();
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
    for (const Call& call : calls) call.ExpectDone();
  }
}

// Posts until a call is refused; the number of those that were not.
int PostsUntilRefused(RankRegion& region, absl::Status& refusal) {
  int posted = 0;
  do {
    refusal = region.AcquireSlot();
    if (refusal.ok()) ++posted;
  } while (refusal.ok() && posted < 1000);
  return posted;
}

TEST(Ord5, TheCallThatWaitsHasADeadline) {
  SKIP_UNLESS(doors_never_wait);
  for (const int lead : {1, 2, 4}) {
    SCOPED_TRACE(absl::StrCat("lead ", lead));
    SteppedWorld stepped(2, 1, {.absence_timeout = absl::Seconds(7), .max_lead = lead});
    stepped.Away(1);
    absl::Status refusal;
    const int posted = PostsUntilRefused(stepped.region(0), refusal);
    EXPECT_THAT(posted, AnyOf(lead - 1, lead));
    EXPECT_THAT(refusal, KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
    EXPECT_GE(stepped.clock().Now(), absl::Seconds(7));
    EXPECT_LE(stepped.clock().Now(), absl::Seconds(8));
  }
}

TEST(Ord5, TheCallThatWaitsIsReleasedByCancelAndClose) {
  SKIP_UNLESS(doors_never_wait);
  for (const bool close : {false, true}) {
    auto world = NewWorld(2, {.absence_timeout = absl::InfiniteDuration(), .max_lead = 2});
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}, {.name = "tensor"}));
    Progress returned;
    absl::Status refusal;
    OnThreads(2, [&](int which) {
      if (which == 1) {
        returned.AwaitAtLeast(1);
        close ? region.Close() : region.Cancel("no more of this");
        return;
      }
      Attachment rank = world->Attach(0).value();
      RankRegion mine = region.ForRank(*rank).value();
      EXPECT_OK(mine.AcquireSlot());
      returned.Add();
      PostsUntilRefused(mine, refusal);
    });
    if (close) {
      EXPECT_THAT(refusal, KindIs(ErrorKind::kClosed, HasSubstr("tensor")));
    } else {
      EXPECT_THAT(refusal, KindIs(ErrorKind::kCancelled, HasSubstr("no more of this")));
    }
  }
}

TEST(Ord5, EachRegionHasALeadOfItsOwn) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2, 1, {.absence_timeout = absl::Seconds(7), .max_lead = 100});
  ASSERT_OK_AND_ASSIGN(Region narrow, stepped.world().NewRegion({0, 1}, {.max_lead = 2}));
  ASSERT_OK_AND_ASSIGN(RankRegion mine, narrow.ForRank(stepped.rank(0)));
  absl::Status refusal;
  EXPECT_THAT(PostsUntilRefused(mine, refusal), AnyOf(1, 2));
}

TEST(Ord5, AThousandOperationsQueueAhead) {
  SKIP_UNLESS(doors_never_wait);
  for (const int first : {0, 1}) {
    auto world = NewWorld(2, {.max_lead = 2000});
    const std::deque<Call> calls = Calls(*world, 1000);
    std::vector<Attachment> ranks;
    for (const int id : {0, 1}) ranks.push_back(world->Attach(id).value());
    for (const int id : {first, 1 - first}) {
      EXPECT_OK(PostAll(calls, ranks[At(id)]->region()));
    }
    for (Attachment& rank : ranks) EXPECT_OK(rank->stream().Synchronize());
    for (const Call& call : calls) call.ExpectDone();
  }
}

TEST(Ord5, AThousandOperationsPassWithTheUsualLead) {
  auto world = NewWorld(3);
  const std::deque<Call> calls = Calls(*world, 1000);
  const auto post = [&](Rank& rank) { return PostAll(calls, rank.region()); };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (const Call& call : calls) call.ExpectDone();
}

TEST(Ord5, ALeadBelowOneIsInvalid) {
  const auto backend = NewBackend(2);
  for (const int lead : {0, -1}) {
    EXPECT_THAT(World::Create(backend, {.max_lead = lead}),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr("max_lead")));
  }
  auto world = NewWorld(2);
  EXPECT_THAT(world->NewRegion({0, 1}, {.max_lead = 0}), KindIs(ErrorKind::kInvalidArgument));
}

}  // namespace
}  // namespace mp::test
