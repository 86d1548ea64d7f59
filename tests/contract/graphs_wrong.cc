// CAP-1, CAP-4, CAP-5: what is wrong with a capture or a launch is told to every rank, and nothing
// of it runs; graphs may be let go of in any order, and outlive their World.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Body = std::function<absl::Status(RankRegion&)>;

// What every rank's Capture on `region` tells; a Region fails for each test anew.
std::vector<absl::Status> Captured(World& world, Region& region, const Body& body) {
  return Drive(world, [&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
    return mine.Capture(body).status();
  });
}

TEST(Cap0, ABackendWithoutGraphsSaysSoOnEveryRankAndGoesOn) {
  if (Under().graphs) return;
  auto world = NewWorld(2);
  Call call(*world, {});
  const auto told = Captured(*world, world->region(), [&](RankRegion& r) { return call.Post(r); });
  EXPECT_THAT(told, Each(KindIs(ErrorKind::kUnsupported, HasSubstr("graphs"))));
  EXPECT_THAT(Drive(*world, [&](Rank& rank) { return call.Post(rank.region()); }), Each(IsOk()));
  call.ExpectDone();
}

struct Differing {
  const char* what;
  std::vector<CallSpec> most, other;  // what rank 2 calls
  std::vector<const char*> says;
};

std::vector<Differing> DifferingLists() {
  const CallSpec sum = {.shape = {4}}, joined = {.kind = OpKind::kGather};
  return {
      {"kind", {sum, sum}, {sum, joined}, {"operation 1 of", "kind", "AllReduce f32[4]", "Gather"}},
      {"dtype", {sum}, {{.dtype = DType::kI32, .shape = {4}}}, {"operation 0 of", "dtype", "i32"}},
      {"shape",
       {joined, sum},
       {joined, {.shape = {5}}},
       {"operation 1 of", "shape", "f32[4]", "f32[5]"}},
      {"root",
       {joined},
       {{.kind = OpKind::kGather, .root = 1}},
       {"operation 0 of", "root", "root=0", "root=1"}},
      {"count",
       {sum, joined, sum},
       {sum, joined},
       {"different numbers", "rank 0 3", "rank 2 2", "operation 2, AllReduce"}},
      {"none at all", {sum}, {}, {"different numbers", "rank 2 0", "operation 0, AllReduce"}},
  };
}

TEST(Cap1, ListsThatDifferAreAMismatchThatNamesThePlaceTheRanksAndBothValues) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(3);
  for (const Differing& test : DifferingLists()) {
    SCOPED_TRACE(test.what);
    ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1, 2}));
    std::deque<Call> most, other;
    for (const CallSpec& spec : test.most) most.emplace_back(*world, spec);
    for (const CallSpec& spec : test.other) other.emplace_back(*world, spec);
    const Body body = [&](RankRegion& mine) -> absl::Status {
      for (Call& call : mine.peer() == 2 ? other : most) MP_RETURN_IF_ERROR(call.Post(mine));
      return absl::OkStatus();
    };
    // One thread is told alone, and may call again.
    const absl::Status one = region.Capture(body).status();
    EXPECT_THAT(one, KindIs(ErrorKind::kInvalidArgument));
    EXPECT_OK(region.status());
    const auto told = Captured(*world, region, body);
    EXPECT_THAT(told, Each(KindIs(ErrorKind::kMismatch, HasSubstr("nothing was launched"))));
    for (const char* text : test.says) {
      EXPECT_THAT(std::string(told[1].message()), HasSubstr(text));
      EXPECT_THAT(std::string(one.message()), HasSubstr(text));
    }
    for (const Call& call : most) call.ExpectUntouched();
    EXPECT_THAT(Captured(*world, region, body), Each(KindIs(ErrorKind::kMismatch)));
  }
}

TEST(Cap1, WhatNeedsAllRanksToBeSeenIsFoundInARecordingToo) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(2);
  Call call(*world, {.kind = OpKind::kAllGather, .shape = {2, 0}, .extents = {2, 3}});
  Tensor narrow(world->device(0), DType::kF32, {2, 4}), wide(world->device(0), DType::kF32, {2, 5});
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1}));
  EXPECT_THAT(Captured(*world, region,
                       [&](RankRegion& mine) -> absl::Status {
                         MP_RETURN_IF_ERROR(call.Post(mine));
                         return mine.AllGather(call.input(mine.peer()), narrow.view());
                       }),
              Each(KindIs(ErrorKind::kMismatch,
                          AllOf(HasSubstr("operation 1 of"), HasSubstr("2 + 3 = 5")))));
  // Both ranks give one output.
  EXPECT_THAT(Captured(*world, world->region(),
                       [&](RankRegion& mine) {
                         return mine.AllGather(call.input(mine.peer()), wide.view());
                       }),
              Each(KindIs(ErrorKind::kMismatch, HasSubstr("operation 0 of"))));
  call.ExpectUntouched();
}

TEST(Cap1, LaunchesOfDifferentGraphsAreAMismatchAndNothingRuns) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(3);
  Call one(*world, {.shape = {3}}), two(*world, {.shape = {3}});
  sync::Atomic<int> runs{0};
  const auto told = Drive(*world, [&](Rank& rank) -> absl::Status {
    const auto body_of = [&](Call& call) {
      return [&](RankRegion& region) -> absl::Status {
        MP_RETURN_IF_ERROR(region.stream().Launch(Under().kernel([&] { ++runs; })));
        return call.Post(region);
      };
    };
    MP_ASSIGN_OR_RETURN(Graph first, rank.region().Capture(body_of(one)));
    MP_ASSIGN_OR_RETURN(Graph second, rank.region().Capture(body_of(two)));
    MP_RETURN_IF_ERROR((rank.id() == 1 ? second : first).Launch());
    return first.Launch();
  });
  EXPECT_THAT(told,
              Each(KindIs(ErrorKind::kMismatch,
                          AllOf(HasSubstr("graph"), HasSubstr("Graph 1"), HasSubstr("Graph 2")))));
  EXPECT_EQ(runs, 0);
  one.ExpectUntouched();
  two.ExpectUntouched();
}

TEST(Cap1, ALaunchAgainstAPlainOperationIsAMismatch) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(2);
  Call call(*world, {.shape = {3}});
  EXPECT_THAT(Drive(*world,
                    [&](Rank& rank) -> absl::Status {
                      MP_ASSIGN_OR_RETURN(
                          Graph graph, rank.region().Capture(
                                           [&](RankRegion& region) { return call.Post(region); }));
                      return rank.id() == 0 ? graph.Launch() : call.Post(rank.region());
                    }),
              Each(KindIs(ErrorKind::kMismatch, HasSubstr("Graph 1"))));
  call.ExpectUntouched();
}

TEST(Cap4, AnErrorOfTheFunctionReachesEveryRankAndTheRegionGoesOn) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(3);
  Call call(*world, {.shape = {5}});
  const auto failing = [&](const Body& fail) {
    return [&call, fail](RankRegion& region) -> absl::Status {
      MP_RETURN_IF_ERROR(call.Post(region));
      return region.peer() == 1 ? fail(region) : call.Post(region);
    };
  };
  const auto not_found = failing([](RankRegion&) { return absl::NotFoundError("no such layer"); });
  const auto throws =
      failing([](RankRegion&) -> absl::Status { throw std::out_of_range("layer 9"); });
  const auto odd = failing([](RankRegion&) -> absl::Status { throw 7; });
  for (int round = 0; round < 2; ++round) {
    const auto told = Captured(*world, world->region(), not_found);
    for (const absl::Status& status : told) {
      EXPECT_EQ(status, absl::NotFoundError("no such layer"));
    }
    EXPECT_THAT(
        Captured(*world, world->region(), throws),
        Each(KindIs(ErrorKind::kUserException, AllOf(HasSubstr("rank 1"), HasSubstr("layer 9")))));
    EXPECT_THAT(Captured(*world, world->region(), odd),
                Each(KindIs(ErrorKind::kUserException, HasSubstr("no exception"))));
    EXPECT_EQ(world->region().Capture(not_found).status(), absl::NotFoundError("no such layer"));
    EXPECT_THAT(world->region().Capture(throws), KindIs(ErrorKind::kUserException));
  }
  call.ExpectUntouched();
  EXPECT_THAT(Drive(*world, [&](Rank& rank) { return call.Post(rank.region()); }), Each(IsOk()));
  call.ExpectDone();
}

struct Refused {
  const char* what;
  std::function<absl::Status(Rank&, RankRegion&)> call;
  ErrorKind kind;
  const char* says;
};

std::vector<Refused> RefusedCalls(Region& other, const Graph& graph, const Call& call) {
  const TensorView nothing(nullptr, DType::kF32, {0});
  return {
      {"wrong argument",
       [](Rank&, RankRegion& r) { return r.AllReduce(TensorView(nullptr, DType::kBool, {0})); },
       ErrorKind::kUnsupported, "bool"},
      {"wrong root", [nothing](Rank&, RankRegion& r) { return r.Gather(nothing, nothing, 7); },
       ErrorKind::kInvalidArgument, "root 7"},
      {"wrong step of a batch",
       [nothing](Rank&, RankRegion& r) { return r.NewBatch().Gather(nothing, nothing, 7); },
       ErrorKind::kInvalidArgument, "root 7"},
      {"wrong copy",
       [nothing](Rank& rank, RankRegion&) {
         return rank.stream().Copy(nothing, TensorView(nullptr, DType::kF32, {0, 2}));
       },
       ErrorKind::kInvalidArgument, "one dtype and shape"},
      {"Stream::Synchronize", [](Rank& rank, RankRegion&) { return rank.stream().Synchronize(); },
       ErrorKind::kUsageError, "cannot wait"},
      {"Event::Synchronize",
       [](Rank& rank, RankRegion&) { return rank.stream().Record().Synchronize(); },
       ErrorKind::kUsageError, "cannot wait"},
      {"Work::Synchronize",
       [&call](Rank&, RankRegion& r) -> absl::Status {
         MP_ASSIGN_OR_RETURN(Work work, call.Start(r));
         EXPECT_FALSE(work.Done());
         return work.Synchronize();
       },
       ErrorKind::kUsageError, "cannot wait"},
      {"another Region",
       [&other, &call](Rank& rank, RankRegion&) -> absl::Status {
         MP_ASSIGN_OR_RETURN(RankRegion mine, other.ForRank(rank));
         return call.Post(mine);
       },
       ErrorKind::kUsageError, "\"other\""},
      {"a capture inside",
       [](Rank&, RankRegion& r) {
         return r.Capture([](RankRegion&) { return absl::OkStatus(); }).status();
       },
       ErrorKind::kUsageError, "inside a capture"},
      {"a launch inside",
       [&graph](Rank& rank, RankRegion&) { return graph.ForRank(rank)->Launch(); },
       ErrorKind::kUsageError, "inside a capture"},
      {"all ranks' door",
       [&call](Rank& rank, RankRegion&) { return call.Start(rank.world().region()).status(); },
       ErrorKind::kUsageError, "inside a capture"},
      {"a wait for another stream",
       [](Rank& rank, RankRegion&) -> absl::Status {
         MP_ASSIGN_OR_RETURN(Stream * stream, rank.NewStream());
         return rank.stream().Wait(stream->Record());
       },
       ErrorKind::kUsageError, "not recorded"},
  };
}

TEST(Cap4, WhatACaptureDoesNotTakeIsRefusedAtOnceAndEndsItOnEveryRank) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(2);
  ASSERT_OK_AND_ASSIGN(Region other, world->NewRegion({0, 1}, {.name = "other"}));
  Call call(*world, {.shape = {5}});
  ASSERT_OK_AND_ASSIGN(
      Graph graph, world->region().Capture([&](RankRegion& region) { return call.Post(region); }));
  for (const Refused& refused : RefusedCalls(other, graph, call)) {
    SCOPED_TRACE(refused.what);
    EXPECT_THAT(Drive(*world,
                      [&](Rank& rank) {
                        return rank.region()
                            .Capture([&](RankRegion& region) -> absl::Status {
                              MP_RETURN_IF_ERROR(call.Post(region));
                              if (rank.id() == 0) return absl::OkStatus();
                              EXPECT_THAT(refused.call(rank, region),
                                          KindIs(refused.kind, HasSubstr(refused.says)));
                              EXPECT_THAT(call.Post(region), KindIs(refused.kind));
                              return absl::OkStatus();  // swallowed
                            })
                            .status();
                      }),
                Each(KindIs(refused.kind, HasSubstr(refused.says))));
    EXPECT_OK(world->region().status());
    EXPECT_OK(other.status());
  }
  call.ExpectUntouched();
  EXPECT_OK(graph.Launch());
  EXPECT_OK(world->Synchronize());
  call.ExpectDone();
}

TEST(Cap3, AnOverlappedOperationThatNothingWaitsForIsAnErrorOnEveryRank) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(2);
  Call call(*world, {.shape = {5}});
  for (const int joined : {0, 1}) {  // of two
    EXPECT_THAT(
        Captured(*world, world->region(),
                 [&](RankRegion& region) -> absl::Status {
                   MP_ASSIGN_OR_RETURN(Work first, call.Start(region));
                   MP_ASSIGN_OR_RETURN(Work second, call.Start(region));
                   if (joined == 1 || region.peer() == 0) {
                     MP_RETURN_IF_ERROR(first.Wait(region.stream()));
                   }
                   return region.peer() == 0 ? second.Wait(region.stream()) : absl::OkStatus();
                 }),
        Each(KindIs(ErrorKind::kUsageError, AllOf(HasSubstr("rank 1"), HasSubstr("operation 1")))));
  }
  EXPECT_OK(world->region().status());
  call.ExpectUntouched();
}

TEST(Cap3, MarksOfACaptureMeanNothingOutside) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(2);
  Call call(*world, {.shape = {5}});
  const auto told = Drive(*world, [&](Rank& rank) -> absl::Status {
    Event mark;
    Work work;
    MP_ASSIGN_OR_RETURN(Graph graph, rank.region().Capture([&](RankRegion& region) -> absl::Status {
      MP_ASSIGN_OR_RETURN(work, call.Start(region));
      mark = region.stream().Record();
      MP_ASSIGN_OR_RETURN(Stream * another, rank.NewStream());
      EXPECT_THAT(another->Wait(mark), KindIs(ErrorKind::kUsageError));
      MP_RETURN_IF_ERROR(region.stream().Wait(mark));
      return work.Wait(region.stream());
    }));
    MP_RETURN_IF_ERROR(graph.Launch());
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    EXPECT_FALSE(mark.Done());
    EXPECT_FALSE(work.Done());
    EXPECT_THAT(mark.Synchronize(), KindIs(ErrorKind::kUsageError));
    EXPECT_THAT(work.Synchronize(), KindIs(ErrorKind::kUsageError));
    EXPECT_THAT(work.Wait(rank.stream()), KindIs(ErrorKind::kUsageError));
    return rank.stream().Wait(mark);
  });
  EXPECT_THAT(told, Each(KindIs(ErrorKind::kUsageError)));
  call.ExpectDone();
}

TEST(Cap4, ARankThatLeavesInPlaceOfCapturingIsTold) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(3);
  Call call(*world, {.shape = {5}});
  std::vector<absl::Status> told(3);
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    if (rank.id() == 2) return absl::OkStatus();
    told[At(rank.id())] =
        rank.region().Capture([&](RankRegion& region) { return call.Post(region); }).status();
    return absl::OkStatus();
  }));
  told.pop_back();
  EXPECT_THAT(told, Each(KindIs(ErrorKind::kAbsentShard,
                                AllOf(HasSubstr("rank 2"), HasSubstr("cannot come")))));
  // One that calls something else.
  ASSERT_OK_AND_ASSIGN(Region region, world->NewRegion({0, 1, 2}));
  EXPECT_THAT(
      Drive(*world,
            [&](Rank& rank) -> absl::Status {
              MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
              if (rank.id() == 2) return call.Post(mine);
              return mine.Capture([&](RankRegion& r) { return call.Post(r); }).status();
            }),
      Each(KindIs(ErrorKind::kMismatch, AllOf(HasSubstr("Capture"), HasSubstr("AllReduce")))));
  // One that is too late.
  ASSERT_OK_AND_ASSIGN(Region impatient,
                       world->NewRegion({0, 1}, {.absence_timeout = absl::Milliseconds(5)}));
  Progress over;
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    if (rank.id() == 1) over.AwaitAtLeast(1);
    if (rank.id() != 0) return absl::OkStatus();
    MP_ASSIGN_OR_RETURN(RankRegion mine, impatient.ForRank(rank));
    EXPECT_THAT(mine.Capture([&](RankRegion& r) { return call.Post(r); }),
                KindIs(ErrorKind::kAbsentShard, HasSubstr("Capture")));
    over.Add();
    return absl::OkStatus();
  }));
  call.ExpectUntouched();
}

TEST(Cap4, DoorsAndNames) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(3);
  ASSERT_OK_AND_ASSIGN(Region pair, world->NewRegion({0, 1}, {.name = "pair"}));
  Call call(*world, {0, 1}, {.shape = {5}});
  const Body body = [&](RankRegion& region) { return call.Post(region); };
  ASSERT_OK_AND_ASSIGN(const Graph graph, pair.Capture(body));
  EXPECT_THAT(Graph().Launch(), KindIs(ErrorKind::kUsageError));
  {
    const Attachment rank = world->Attach(0).value(), foreign = world->Attach(2).value();
    EXPECT_THAT(graph.ForRank(*foreign), KindIs(ErrorKind::kInvalidArgument, HasSubstr("rank 2")));
    EXPECT_THAT(graph.Launch(), KindIs(ErrorKind::kUsageError, HasSubstr("drives rank 0")));
    EXPECT_THAT(pair.Capture(body), KindIs(ErrorKind::kUsageError, HasSubstr("drives rank 0")));
    OnThreads(1, [&](int) {
      EXPECT_THAT(graph.ForRank(*rank)->Launch(), KindIs(ErrorKind::kUsageError));
    });
  }
  call.ExpectUntouched();
  EXPECT_OK(graph.Launch());
  EXPECT_OK(world->Synchronize());
  call.ExpectDone();
  pair.Close();
  EXPECT_THAT(graph.Launch(), KindIs(ErrorKind::kClosed));
  EXPECT_THAT(pair.Capture(body), KindIs(ErrorKind::kClosed));
}

}  // namespace
}  // namespace mp::test
