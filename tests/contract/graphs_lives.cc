// CAP-2, CAP-5: a capture disturbs nobody else, and graphs may be let go of in any order, with
// launches under way, and after their World.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Cap2, ACaptureDisturbsNeitherOtherStreamsNorThreadsNorRanks) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(4);
  ASSERT_OK_AND_ASSIGN(Region left, world->NewRegion({0, 1}));
  ASSERT_OK_AND_ASSIGN(Region right, world->NewRegion({2, 3}));
  Call recorded(*world, {0, 1}, {.kind = OpKind::kAllGather, .shape = {3, 0}});
  Call plain(*world, {2, 3}, {.kind = OpKind::kAllGather, .shape = {3, 0}});
  sync::Atomic<int> queued{0}, in_graph{0}, elsewhere{0}, of_another{0};
  Progress captures;
  EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
    if (rank.id() >= 2) {
      MP_ASSIGN_OR_RETURN(RankRegion mine, right.ForRank(rank));

      MP_RETURN_IF_ERROR(plain.Post(mine));
      MP_RETURN_IF_ERROR(rank.stream().Synchronize());

      captures.Add();
      return absl::OkStatus();
    }
    MP_ASSIGN_OR_RETURN(RankRegion mine, left.ForRank(rank));
    const auto count = [](sync::Atomic<int>& counter) {
      return Under().kernel([&counter] { ++counter; });
    };
    MP_RETURN_IF_ERROR(rank.stream().Launch(count(queued)));
    MP_ASSIGN_OR_RETURN(Graph graph, mine.Capture([&](RankRegion& region) -> absl::Status {
      MP_RETURN_IF_ERROR(region.stream().Launch(count(in_graph)));
      MP_ASSIGN_OR_RETURN(Stream * another, rank.NewStream());
      MP_RETURN_IF_ERROR(another->Launch(count(elsewhere)));
      MP_RETURN_IF_ERROR(another->Synchronize());
      OnThreads(1, [&](int) {
        EXPECT_OK(rank.stream().Launch(count(of_another)));
        EXPECT_OK(rank.stream().Synchronize());
      });
      captures.AwaitAtLeast(2);  // ranks 2 and 3 have done theirs meanwhile
      return recorded.Post(region);
    }));
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    EXPECT_EQ(in_graph, 0);
    return absl::OkStatus();
  }));
  EXPECT_EQ(queued, 2);
  EXPECT_EQ(elsewhere, 2);
  EXPECT_EQ(of_another, 2);
  plain.ExpectDone();
  recorded.ExpectUntouched();
}

TEST(Cap5, AGraphMayGoWhileItsLaunchesAreUnderWay) {
  SKIP_UNLESS(graphs);
  const std::shared_ptr<Backend> backend = NewBackend(3);
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<World> world, World::Create(backend));
  Call call(*world, {.kind = OpKind::kAllGather, .shape = {2, 0}});
  constexpr int kRounds = 100;
  sync::Atomic<int> runs{0};
  auto held = std::make_shared<sync::Atomic<int>*>(&runs);
  const std::weak_ptr<sync::Atomic<int>*> watched = held;
  EXPECT_OK(world->Run([&, held](Rank& rank) -> absl::Status {
    for (int round = 0; round < kRounds; ++round) {
      MP_ASSIGN_OR_RETURN(
          Graph graph, rank.region().Capture([&](RankRegion& region) -> absl::Status {
            MP_RETURN_IF_ERROR(region.stream().Launch(Under().kernel([held] { ++**held; })));
            return call.Post(region);
          }));
      for (int launch = 0; launch < 3; ++launch) MP_RETURN_IF_ERROR(graph.Launch());
      if (round % 3 == rank.id()) MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    }
    return absl::OkStatus();
  }));
  EXPECT_EQ(runs, kRounds * 3 * 3);
  call.ExpectDone();
  held.reset();
  EXPECT_OK(world->Close());
  world.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Cap5, WhatAGraphHoldsGoesWithIt) {
  SKIP_UNLESS(graphs);
  auto world = NewWorld(2, {.rank_threads = false});
  auto held = std::make_shared<sync::Atomic<int>>(0);
  const auto capture = [&, held](const absl::Status& end) {
    return world->region().Capture([&, held](RankRegion& region) -> absl::Status {
      MP_RETURN_IF_ERROR(region.stream().Launch(Under().kernel([held] { ++*held; })));
      return end;
    });
  };
  {
    ASSERT_OK_AND_ASSIGN(Graph graph, capture(absl::OkStatus()));
    const Graph copy = graph;
    graph = Graph();
    EXPECT_OK(copy.Launch());
    EXPECT_OK(world->Synchronize());
  }
  EXPECT_EQ(*held, 2);
  EXPECT_EQ(held.use_count(), 2);  // of `capture`, and this
  EXPECT_THAT(capture(absl::NotFoundError("")), testing::Not(IsOk()));
  EXPECT_EQ(held.use_count(), 2);
}

TEST(Cap5, LiveGraphsAreCountedAtCloseAndMayOutliveTheWorld) {
  SKIP_UNLESS(graphs);
  for (const bool keeps : {false, true}) {
    std::vector<std::string> lines;
    WorldOptions options{.log = [&](absl::string_view line) { lines.emplace_back(line); }};
    const std::shared_ptr<Backend> backend = NewBackend(3);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<World> world, World::Create(backend, options));
    ASSERT_OK_AND_ASSIGN(Region pair, world->NewRegion({2, 0}));
    Call all(*world, {.shape = {5}}), two(*world, {2, 0}, {.shape = {5}});
    std::vector<Graph> graphs;
    const auto capture = [&](Region& region, Call& call) {
      graphs.push_back(region.Capture([&](RankRegion& r) { return call.Post(r); }).value());
      EXPECT_OK(graphs.back().Launch());
    };
    capture(world->region(), all);
    capture(pair, two);
    if (!keeps) graphs.clear();
    EXPECT_OK(world->Close());
    all.ExpectDone();
    two.ExpectDone();
    if (!keeps) {
      EXPECT_THAT(lines, IsEmpty());
      continue;
    }
    ASSERT_THAT(lines, SizeIs(1));
    EXPECT_THAT(lines[0], HasSubstr("2 of its graphs are alive"));
    for (const Graph& graph : graphs) EXPECT_THAT(graph.Launch(), KindIs(ErrorKind::kClosed));
    graphs.pop_back();
    EXPECT_OK(world->Close());
    world.reset();
    EXPECT_THAT(graphs[0].Launch(), KindIs(ErrorKind::kClosed));
  }
}

TEST(Cap5, CloseEndsLaunchesAndCapturesThatWaitForAPeer) {
  SKIP_UNLESS(graphs);
  for (const bool captures : {false, true}) {
    auto world = NewWorld(2, {.absence_timeout = absl::InfiniteDuration()});
    Call call(*world, {.shape = {5}});
    const auto body = [&](RankRegion& region) { return call.Post(region); };
    ASSERT_OK_AND_ASSIGN(Graph graph, world->region().Capture(body));
    Progress posted;
    absl::Status told;
    OnThreads(2, [&](int which) {
      if (which == 1) {
        posted.AwaitAtLeast(1);
        EXPECT_OK(world->Close());
        return;
      }
      const Attachment rank = world->Attach(0).value();
      if (captures) {
        told = rank->region()
                   .Capture([&](RankRegion& region) {
                     posted.Add();
                     return body(region);
                   })
                   .status();
      } else {
        if (!Under().doors_never_wait) posted.Add();
        told = graph.ForRank(*rank)->Launch();
        posted.Add();
        if (told.ok()) told = rank->stream().Synchronize();
      }
    });
    EXPECT_THAT(told, KindIs(ErrorKind::kClosed));
    call.ExpectUntouched();
  }
}

}  // namespace
}  // namespace mp::test
