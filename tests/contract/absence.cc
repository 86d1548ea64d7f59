// ABS-1, ABS-2: a rank that never comes is an error on every rank that waits for it: by deadline
// where it might still come, at once and with its cause where it cannot.  Deadlines are shown on a
// clock that the test moves; where ranks end, deadlines are infinite, so that only being told at
// once can end a test.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Every form in which a rank can come to an operation, and then wait for it.
struct Form {
  const char* name;
  std::function<absl::Status(Rank&, RankRegion&, const Call& reduce, const Call& gather)> call;
};

absl::Status Waited(Rank& rank, const absl::Status& posted) {
  MP_RETURN_IF_ERROR(posted);
  return rank.stream().Synchronize();
}

std::vector<Form> Forms() {
  return {
      {"AllReduce", [](Rank& rank, RankRegion& region, const Call& reduce,
                       const Call&) { return Waited(rank, reduce.Post(region)); }},
      {"Gather", [](Rank& rank, RankRegion& region, const Call&,
                    const Call& gather) { return Waited(rank, gather.Post(region)); }},
      {"AllGather",
       [](Rank& rank, RankRegion& region, const Call&, const Call&) {
         return Waited(rank, region.AllGather(TensorView(nullptr, DType::kF32, {0, 2}),
                                              TensorView(nullptr, DType::kF32, {0, 6})));
       }},
      {"AcquireSlot", [](Rank& rank, RankRegion& region, const Call&,
                         const Call&) { return Waited(rank, region.AcquireSlot()); }},
      {"AllReduce",
       [](Rank&, RankRegion& region, const Call& reduce, const Call&) -> absl::Status {
         MP_ASSIGN_OR_RETURN(Work work, reduce.Start(region));
         return work.Synchronize();
       }},
      {"Gather",
       [](Rank& rank, RankRegion& region, const Call& reduce, const Call& gather) -> absl::Status {
         Batch batch = region.NewBatch();
         MP_RETURN_IF_ERROR(gather.AddTo(batch, region.peer()));
         MP_RETURN_IF_ERROR(reduce.AddTo(batch, region.peer()));
         return Waited(rank, batch.End());
       }},
  };
}

TEST(Abs1, EveryFormOfCallHasADeadline) {
  SKIP_UNLESS(doors_never_wait);
  for (const Form& form : Forms()) {
    for (const int absent : {0, 2}) {  // the root of the gather, and another
      for (const bool of_the_region : {false, true}) {
        SCOPED_TRACE(absl::StrCat(form.name, " without rank ", absent));
        SteppedWorld stepped(3, 1, {.absence_timeout = absl::Seconds(30)});
        for (const int id : {0, 2}) stepped.Away(id);
        RegionOptions options{.name = "tensor"};
        if (of_the_region) options.absence_timeout = absl::Seconds(3);
        ASSERT_OK_AND_ASSIGN(Region region, stepped.world().NewRegion({0, 1, 2}, options));
        Call reduce(stepped.world(), {}), gather(stepped.world(), {.kind = OpKind::kGather});
        for (const int id : {1, 2 - absent}) {  // the second calls when the first has been told
          ASSERT_OK_AND_ASSIGN(RankRegion mine, region.ForRank(stepped.rank(id)));
          EXPECT_THAT(
              form.call(stepped.rank(id), mine, reduce, gather),
              KindIs(ErrorKind::kAbsentShard, AllOf(HasSubstr("tensor"), HasSubstr(form.name),
                                                    HasSubstr(absl::StrCat("rank ", absent)))));
        }
        const absl::Duration limit = absl::Seconds(of_the_region ? 3 : 30);
        EXPECT_GE(stepped.clock().Now(), limit);
        EXPECT_LE(stepped.clock().Now(), limit + absl::Seconds(1));
        reduce.ExpectUntouched();
        gather.ExpectUntouched();
      }
    }
  }
}

// Of one who is not the first, and whose peer is ahead.
TEST(Abs1, TheShortestOfTheRanksDeadlinesHoldsBehindOneWhoIsAhead) {
  SKIP_UNLESS(doors_never_wait);
  for (const int posted_ahead : {0, 1, 2}) {
    SteppedWorld stepped(3, 1, {.absence_timeout = absl::Seconds(30)});
    stepped.Away(2);
    EXPECT_OK(stepped.region(0).AcquireSlot());
    const Event first = stepped.rank(0).stream().Record();
    for (int i = 0; i < posted_ahead; ++i) EXPECT_OK(stepped.region(0).AcquireSlot());
    EXPECT_OK(stepped.region(1).AcquireSlot({.absence_timeout = absl::Seconds(3)}));
    EXPECT_OK(first.Synchronize());
    EXPECT_THAT(stepped.Synchronize(0), KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 2")));
    EXPECT_GE(stepped.clock().Now(), absl::Seconds(3));
    EXPECT_LE(stepped.clock().Now(), absl::Seconds(4));
    EXPECT_THAT(stepped.Synchronize(1), KindIs(ErrorKind::kAbsentShard));
  }
}

TEST(Abs1, ACallHasItsOwnDeadline) {
  SKIP_UNLESS(doors_never_wait);
  using Post = std::function<absl::Status(RankRegion&, const TensorView& x,
                                          const TensorView& joined, absl::Duration timeout)>;
  const std::vector<std::pair<const char*, Post>> posts = {
      {"AllReduce",
       [](RankRegion& region, const TensorView& x, const TensorView&, absl::Duration timeout) {
         return region.AllReduce(x, x, {.absence_timeout = timeout});
       }},
      {"Gather",
       [](RankRegion& region, const TensorView& x, const TensorView& joined,
          absl::Duration timeout) {
         return region.Gather(x, joined, 0, {.absence_timeout = timeout});
       }},
      {"AllGather",
       [](RankRegion& region, const TensorView& x, const TensorView& joined,
          absl::Duration timeout) {
         return region.StartAllGather(x, joined, {.absence_timeout = timeout}).status();
       }},
      {"AllReduce",
       [](RankRegion& region, const TensorView& x, const TensorView& joined,
          absl::Duration timeout) {
         Batch batch = region.NewBatch();
         MP_RETURN_IF_ERROR(batch.AllReduce(x, x, {.absence_timeout = absl::Hours(2)}));
         MP_RETURN_IF_ERROR(batch.AllGather(x, joined, {.absence_timeout = timeout}));
         return batch.End();
       }},
      {"AcquireSlot",
       [](RankRegion& region, const TensorView&, const TensorView&, absl::Duration timeout) {
         return region.AcquireSlot({.absence_timeout = timeout});
       }},
  };
  for (const auto& [name, post] : posts) {
    for (const int seconds : {0, 3, 300}) {  // shorter and longer than the World's
      for (const bool behind : {false, true}) {
        SCOPED_TRACE(absl::StrCat(name, " within ", seconds, behind ? " behind another" : ""));
        SteppedWorld stepped(2, 1, {.absence_timeout = absl::Seconds(30)});
        ASSERT_OK_AND_ASSIGN(Buffer x, stepped.rank(0).device().Allocate(DType::kF32, {2, 1}));
        ASSERT_OK_AND_ASSIGN(Buffer joined, stepped.rank(0).device().Allocate(DType::kF32, {2, 2}));
        stepped.Away(1);
        RankRegion& region = stepped.region(0);
        if (behind) {
          ASSERT_OK(region.AcquireSlot());  // waits as long as the World says
        }
        const absl::Status negative = post(region, x.view(), joined.view(), -absl::Seconds(1));
        EXPECT_THAT(negative,
                    KindIs(ErrorKind::kInvalidArgument, HasSubstr("absence_timeout -1s")));
        ASSERT_OK(post(region, x.view(), joined.view(), absl::Seconds(seconds)));
        ASSERT_OK_AND_ASSIGN(Work last, region.StartAllReduce(x.view(), x.view(),
                                                              {.absence_timeout = absl::Hours(1)}));
        EXPECT_THAT(last.Synchronize(),
                    KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1 did not come within")));
        EXPECT_EQ(stepped.clock().Now(), absl::Seconds(behind && seconds > 30 ? 30 : seconds));
      }
    }
  }
}

TEST(Abs1, TheShortestOfTheRanksDeadlinesHolds) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(3, 1, {.absence_timeout = absl::Seconds(30)});
  stepped.Away(2);
  ASSERT_OK_AND_ASSIGN(Buffer x, stepped.rank(0).device().Allocate(DType::kF32, {2}));
  ASSERT_OK_AND_ASSIGN(Buffer y, stepped.rank(1).device().Allocate(DType::kF32, {2}));
  ASSERT_OK(stepped.region(0).AllReduce(x.view(), x.view(), {.absence_timeout = absl::Hours(1)}));
  ASSERT_OK(stepped.region(1).AllReduce(y.view(), y.view(), {.absence_timeout = absl::Seconds(2)}));
  EXPECT_THAT(stepped.Synchronize(0), KindIs(ErrorKind::kAbsentShard, HasSubstr("within 2s")));
  EXPECT_EQ(stepped.clock().Now(), absl::Seconds(2));
}

TEST(Abs1, EveryRankThatWaitsIsTold) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(4, 1, {.absence_timeout = absl::Seconds(30)});
  stepped.Away(2);
  Call call(stepped.world(), {.kind = OpKind::kAllGather});
  for (const int id : {0, 1, 3}) EXPECT_OK(call.Post(stepped.region(id)));
  for (const int id : {3, 0, 1}) {
    EXPECT_THAT(stepped.Synchronize(id), KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 2")));
  }
  EXPECT_EQ(stepped.clock().Now(), absl::Seconds(30));
  EXPECT_THAT(stepped.world().region().status(), KindIs(ErrorKind::kAbsentShard));
  call.ExpectUntouched();
}

TEST(Abs1, EveryWayToWaitHasTheDeadline) {
  SKIP_UNLESS(doors_never_wait);
  const std::vector<std::function<absl::Status(Rank&, const Work&)>> waits = {
      [](Rank&, const Work& work) { return work.Synchronize(); },
      [](Rank& rank, const Work& work) -> absl::Status {
        MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
        return rank.stream().Synchronize();
      },
      [](Rank& rank, const Work& work) -> absl::Status {
        MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
        MP_RETURN_IF_ERROR(rank.stream().Record().Synchronize());
        return rank.stream().Synchronize();
      },
      [](Rank& rank, const Work& work) -> absl::Status {
        MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
        return rank.world().Synchronize();
      },
      [](Rank& rank, const Work& work) -> absl::Status {
        MP_ASSIGN_OR_RETURN(Stream * other, rank.NewStream());
        MP_RETURN_IF_ERROR(work.Wait(*other));
        MP_RETURN_IF_ERROR(other->Synchronize());
        return work.status();
      },
  };
  for (size_t i = 0; i < waits.size(); ++i) {
    SCOPED_TRACE(i);
    SteppedWorld stepped(2, 1, {.absence_timeout = absl::Seconds(30)});
    stepped.Away(1);
    Call call(stepped.world(), {});
    ASSERT_OK_AND_ASSIGN(Work work, call.Start(stepped.region(0)));
    EXPECT_THAT(waits[i](stepped.rank(0), work),
                KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
    EXPECT_EQ(stepped.clock().Now(), absl::Seconds(30));
    EXPECT_TRUE(work.Done());
    EXPECT_THAT(work.status(), KindIs(ErrorKind::kAbsentShard));
    EXPECT_THAT(call.Post(stepped.region(1)), KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
    call.ExpectUntouched();
  }
}

TEST(Abs1, ALateRankIsNoAbsentOne) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2, 1, {.absence_timeout = absl::Seconds(30)});
  for (int i = 0; i < 5; ++i) {
    Call call(stepped.world(), {});
    EXPECT_OK(call.Post(stepped.region(0)));
    const absl::Status looked = stepped.rank(0).stream().Synchronize(absl::Seconds(20));
    EXPECT_TRUE(absl::IsDeadlineExceeded(looked)) << looked;
    EXPECT_EQ(KindOf(looked), ErrorKind::kNone);  // nothing is lost
    stepped.clock().Advance(absl::Seconds(9));
    EXPECT_OK(call.Post(stepped.region(1)));
    EXPECT_THAT(stepped.SynchronizeAll(), Each(IsOk()));
    call.ExpectDone();
  }
}

TEST(Abs1, TheLogIsToldBeforeThat) {
  SKIP_UNLESS(doors_never_wait);
  std::vector<std::string> lines;
  SteppedWorld stepped(2, 1,
                       {.absence_timeout = absl::Seconds(60),
                        .absence_warning = absl::Seconds(10),
                        .log = [&](absl::string_view line) { lines.emplace_back(line); }});
  stepped.Away(1);
  Call call(stepped.world(), {});
  EXPECT_OK(call.Post(stepped.region(0)));
  EXPECT_FALSE(stepped.rank(0).stream().Synchronize(absl::Seconds(9)).ok());
  EXPECT_THAT(lines, SizeIs(0));
  EXPECT_FALSE(stepped.rank(0).stream().Synchronize(absl::Seconds(9)).ok());
  EXPECT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines, Each(AllOf(HasSubstr("rank 1"), HasSubstr("AllReduce"))));
  EXPECT_THAT(stepped.Synchronize(0), KindIs(ErrorKind::kAbsentShard));
  EXPECT_EQ(stepped.clock().Now(), absl::Seconds(60));
}

TEST(Shut6, ACleanRunWritesNothing) {
  std::vector<std::string> lines;
  auto world = NewWorld(2, {.log = [&](absl::string_view line) { lines.emplace_back(line); }});
  for (const CallSpec& spec : OneOfEach()) {
    Call call(*world, spec);
    const auto post = [&](Rank& rank) { return call.Post(rank.region()); };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  }
  EXPECT_OK(world->Close());
  EXPECT_THAT(lines, SizeIs(0));
}

TEST(Abs1, TheDeadlineHoldsInRealTime) {
  auto world = NewWorld(3, {.absence_timeout = absl::Milliseconds(50)});
  Call call(*world, {.kind = OpKind::kAllGather});
  Progress told;
  const auto post = [&](Rank& rank) -> absl::Status {
    if (rank.id() == 1) {  // there, but not coming
      told.AwaitAtLeast(2);
      EXPECT_THAT(call.Post(rank.region()), KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
      return absl::OkStatus();
    }
    absl::Status status = call.Post(rank.region());
    if (status.ok()) status = rank.stream().Synchronize();
    EXPECT_THAT(status, KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
    told.Add();
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  call.ExpectUntouched();
}

// How a rank function ends.
struct End {
  const char* how;
  std::function<absl::Status()> end;
  const char* cause;  // what the peers read
  ErrorKind kind;     // of what Run returns
};

std::vector<End> Ends() {
  return {
      {"returns", [] { return absl::OkStatus(); }, "rank 1", ErrorKind::kAbsentShard},
      {"fails", [] { return absl::DataLossError("no such file"); }, "no such file",
       ErrorKind::kNone},
      {"throws", []() -> absl::Status { throw std::runtime_error("no more paper"); },
       "no more paper", ErrorKind::kUserException},
      {"throws a number", []() -> absl::Status { throw 42; }, "rank 1", ErrorKind::kUserException},
  };
}

TEST(Abs2, ARankThatEndsIsToldToItsPeersAtOnce) {
  const std::vector<std::function<absl::Status(Rank&, const Call&)>> waits = {
      [](Rank& rank, const Call& call) -> absl::Status {
        MP_RETURN_IF_ERROR(call.Post(rank.region()));
        return rank.stream().Synchronize();
      },
      [](Rank& rank, const Call& call) -> absl::Status {
        MP_ASSIGN_OR_RETURN(Work work, call.Start(rank.region()));
        return work.Synchronize();
      },
      [](Rank& rank, const Call& call) -> absl::Status {  // many posts: the lead is used up
        for (int i = 0; i < 3; ++i) MP_RETURN_IF_ERROR(call.Post(rank.region()));
        return rank.stream().Synchronize();
      },
  };
  for (const End& end : Ends()) {
    for (size_t wait = 0; wait < waits.size(); ++wait) {
      SCOPED_TRACE(absl::StrCat("a rank ", end.how, ", wait ", wait));
      auto world = NewWorld(3, {.absence_timeout = absl::InfiniteDuration(), .max_lead = 2});
      Call call(*world, {.kind = OpKind::kAllGather});
      std::vector<absl::Status> told(3);
      const absl::Status status = world->Run([&](Rank& rank) {
        if (rank.id() == 1) return end.end();
        return told[At(rank.id())] = waits[wait](rank, call);
      });
      for (const size_t peer : {0, 2}) {
        EXPECT_THAT(told[peer], KindIs(ErrorKind::kAbsentShard,
                                       AllOf(HasSubstr("rank 1"), HasSubstr(end.cause))));
      }
      EXPECT_FALSE(status.ok());
      EXPECT_EQ(KindOf(status), end.kind) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(end.cause));
      call.ExpectUntouched();
    }
  }
}

TEST(Abs2, AWorkThatCameToNothingNeverLooksLikeSuccess) {
  auto world = NewWorld(2);
  for (int round = 0; round < 200; ++round) {
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}));
    Call call(*world, {.kind = OpKind::kAllGather});
    absl::Status told;
    EXPECT_FALSE(world
                     ->Run([&](Rank& rank) -> absl::Status {
                       if (rank.id() == 1) return absl::DataLossError("no such file");
                       MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
                       absl::StatusOr<Work> work = call.Start(mine);
                       told = work.ok() ? work->Synchronize() : work.status();
                       return absl::OkStatus();
                     })
                     .ok());
    EXPECT_THAT(told, KindIs(ErrorKind::kAbsentShard, HasSubstr("no such file")));
  }
}

TEST(Abs2, AFailedRunReleasesRanksThatWaitForOthers) {
  auto world = NewWorld(3, {.absence_timeout = absl::Seconds(20)});
  ASSERT_OK_AND_ASSIGN(Region pair, world->NewRegion({0, 1}));
  Progress released;
  absl::Status told;
  const absl::Status status = world->Run([&](Rank& rank) -> absl::Status {
    if (rank.id() == 2) return absl::DataLossError("no such file");
    if (rank.id() == 1) {  // does not come, does not end either
      released.AwaitAtLeast(1);
      return absl::OkStatus();
    }
    MP_ASSIGN_OR_RETURN(RankRegion mine, pair.ForRank(rank));
    told = mine.AcquireSlot();
    if (told.ok()) told = rank.stream().Synchronize();
    released.Add();
    return told;
  });
  EXPECT_THAT(std::string(told.message()), HasSubstr("no such file"));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST(Abs2, AnAttachmentThatGoesIsToldToPeersThatWait) {
  SKIP_UNLESS(doors_never_wait);
  SteppedWorld stepped(2, 1, {.absence_timeout = absl::Seconds(30)});
  EXPECT_OK(stepped.region(0).AcquireSlot());
  stepped.Leave(1);
  EXPECT_THAT(stepped.Synchronize(0), KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
  EXPECT_EQ(stepped.clock().Now(), absl::ZeroDuration());  // at once
}

TEST(Abs2, AnAttachmentThatGoesIsToldToPeersThatWaitOnTheirThreads) {
  SKIP_UNLESS(doors_never_wait);
  auto world = NewWorld(2, {.rank_threads = false, .absence_timeout = absl::InfiniteDuration()});
  Progress attached, posted;
  absl::Status told;
  OnThreads(2, [&](int id) {
    Attachment rank = world->Attach(id).value();
    attached.Add();
    attached.AwaitAtLeast(2);
    if (id == 1) return posted.AwaitAtLeast(1);
    told = rank->region().AcquireSlot();
    posted.Add();
    if (told.ok()) told = rank->stream().Synchronize();
  });
  EXPECT_THAT(told, KindIs(ErrorKind::kAbsentShard, HasSubstr("rank 1")));
}

TEST(Abs2, WhatARankHasPostedBeforeItEndsStillRuns) {
  auto world = NewWorld(3, {.absence_timeout = absl::InfiniteDuration()});
  std::deque<Call> calls;
  for (int i = 0; i < 20; ++i) calls.emplace_back(*world, CallSpec{.seed = At(i)});
  const absl::Status status = world->Run([&](Rank& rank) -> absl::Status {
    for (const Call& call : calls) MP_RETURN_IF_ERROR(call.Post(rank.region()));
    return absl::OkStatus();  // without a wait
  });
  EXPECT_OK(status);
  for (const Call& call : calls) call.ExpectDone();
}

TEST(Err4, RunReturnsTheFirstErrorAndTheWorldStaysUsable) {
  auto world = NewWorld(4);
  for (int round = 0; round < 20; ++round) {
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1, 2, 3}));
    const absl::Status status = world->Run([&](Rank& rank) -> absl::Status {
      if (rank.id() % 2 == 1) throw std::runtime_error(absl::StrCat("paper ", rank.id()));
      MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
      MP_RETURN_IF_ERROR(mine.AcquireSlot());
      return rank.stream().Synchronize();
    });
    // Ranks 1 and 3 both throw: the first is told and the other counted.
    EXPECT_THAT(status, KindIs(ErrorKind::kUserException,
                               ::testing::ContainsRegex("(1|one) (more|other)")));
    const std::string text(status.message());
    EXPECT_TRUE((text.find("paper 1") != text.npos && text.find("rank 1") != text.npos) ||
                (text.find("paper 3") != text.npos && text.find("rank 3") != text.npos))
        << text;
  }
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1, 2, 3}));
  Call call(*world, {.kind = OpKind::kAllGather});
  const auto post = [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    return call.Post(mine);
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  call.ExpectDone();
}

}  // namespace
}  // namespace mp::test
