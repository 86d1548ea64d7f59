// CAN-1, TMO-2: what ends an operation from outside, or in time, comes before it or behind it, and
// never between two of its ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Whether the result of `call`, which is apart from its inputs, is on the first rank.
bool IsDone(const Call& call) { return ReadElements(call.output(0)) == call.expected(); }

void ExpectDoneOrUntouched(const Call& call, bool done) {
  done ? call.ExpectDone() : call.ExpectUntouched();
}

TEST(Can1, ACancelComesBetweenTwoOperations) {
  constexpr int kRanks = 3, kCalls = 60, kCancels = 12;
  for (int moment = 0; moment < kCancels; ++moment) {
    SCOPED_TRACE(absl::StrCat("moment ", moment));
    auto world = NewWorld(kRanks, {.absence_timeout = absl::InfiniteDuration()});
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({2, 0, 1}));
    std::deque<Call> calls;
    for (int i = 0; i < kCalls; ++i) {
      calls.emplace_back(*world, std::vector<int>{2, 0, 1},
                         CallSpec{.kind = OpKind::kAllGather, .seed = static_cast<uint64_t>(i)});
    }
    std::vector<absl::Status> told(kRanks);
    std::vector<int> posted(kRanks, 0);
    Progress progress;
    OnThreads(2, [&](int which) {
      if (which == 1) {
        progress.AwaitAtLeast(1 + moment * 7);
        region.Cancel("enough");
        return;
      }
      EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
        absl::Status& mine = told[At(rank.id())];
        RankRegion door = region.ForRank(rank).value();
        for (int i = 0; i < kCalls && mine.ok(); ++i) {
          mine = calls[At(i)].Post(door);
          posted[At(rank.id())] += mine.ok();
          progress.Add();
          if (mine.ok() && i % 3 == 2) mine = rank.stream().Synchronize();
        }
        const absl::Status waited = rank.stream().Synchronize();
        if (mine.ok()) mine = waited;
        return absl::OkStatus();
      }));
    });
    EXPECT_OK(world->Synchronize());
    EXPECT_THAT(told, Each(AnyOf(IsOk(), KindIs(ErrorKind::kCancelled, HasSubstr("enough")))));
    EXPECT_THAT(region.status(), KindIs(ErrorKind::kCancelled));
    // All up to some operation have run on all ranks, and none behind it on any.
    int ran = 0;
    while (ran < kCalls && IsDone(calls[At(ran)])) ++ran;
    for (int i = 0; i < kCalls; ++i) ExpectDoneOrUntouched(calls[At(i)], i < ran);
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_GE(posted[At(rank)], ran) << "what ran was posted by all";
      EXPECT_EQ(told[At(rank)].ok(), ran == kCalls) << told[At(rank)];
    }
  }
}

TEST(Can1, ACancelWakesWhoWaits) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(2, {.rank_threads = false, .absence_timeout = absl::InfiniteDuration()});
  Call call(*world, {.inputs = Inputs::kInPlace});
  Progress posted;
  absl::Status told;
  OnThreads(2, [&](int which) {
    if (which == 1) {
      posted.AwaitAtLeast(1);
      world->region().Cancel("a signal came");
      return;
    }
    Attachment rank = world->Attach(1).value();
    EXPECT_OK(call.Post(rank->region()));
    posted.Add();
    told = rank->stream().Synchronize();
  });
  EXPECT_THAT(told, KindIs(ErrorKind::kCancelled, HasSubstr("a signal came")));
  call.ExpectUntouched();
}

// A rank that comes at about the moment at which the others give up.
TEST(Tmo2, ATimeoutHasOneOutcomeForAllRanks) {
  constexpr int kRanks = 3, kRounds = 40;
  constexpr absl::Duration kTimeout = absl::Milliseconds(4);
  int done = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    auto world = NewWorld(kRanks, {.absence_timeout = kTimeout});
    Call call(*world, {.kind = OpKind::kAllGather, .seed = static_cast<uint64_t>(round)});
    const absl::Duration late = kTimeout * (0.5 + round * 1.0 / kRounds);
    std::vector<absl::Status> told(kRanks);
    EXPECT_OK(world->Run([&](Rank& rank) {
      if (rank.id() == 1) {
        sync::Atomic<uint32_t> never{0};
        sync::Clock::Steady().Wait(never, 0, late);
      }
      absl::Status& mine = told[At(rank.id())];
      mine = call.Post(rank.region());
      const absl::Status waited = rank.stream().Synchronize();
      if (mine.ok()) mine = waited;
      return absl::OkStatus();
    }));
    if (told[0].ok()) {
      EXPECT_THAT(told, Each(IsOk()));
      call.ExpectDone();
      ++done;
    } else {
      EXPECT_THAT(told, Each(KindIs(ErrorKind::kAbsentShard)));
      call.ExpectUntouched();
    }
  }
  RecordProperty("done", done);
}

}  // namespace
}  // namespace mp::test
