// ABS-3: ranks that wait for each other are told at once, each with the table of who waits for
// what, though deadlines are infinite; and ranks of which one could still post are left alone, over
// very many schedules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

WorldOptions Forever(int max_lead = 256) {
  return {.absence_timeout = absl::InfiniteDuration(), .max_lead = max_lead};
}

auto IsDeadlock(const std::string& table) {
  return KindIs(ErrorKind::kAbsentShard, AllOf(HasSubstr("deadlock"), HasSubstr(table)));
}

void Dawdle(absl::Duration duration) {
  const absl::Duration end = sync::Clock::Steady().Now() + duration;
  while (sync::Clock::Steady().Now() < end) sync::Yield();
}

// The ways to wait for an operation.
using Way = std::function<absl::Status(Rank&, RankRegion&)>;
std::vector<Way> Ways() {
  return {
      [](Rank& rank, RankRegion& region) -> absl::Status {
        MP_RETURN_IF_ERROR(region.AcquireSlot());
        return rank.stream().Synchronize();
      },
      [](Rank& rank, RankRegion& region) -> absl::Status {
        MP_RETURN_IF_ERROR(region.AcquireSlot());
        MP_RETURN_IF_ERROR(rank.stream().Record().Synchronize());
        return rank.stream().Synchronize();
      },
      [](Rank&, RankRegion& region) -> absl::Status {
        MP_ASSIGN_OR_RETURN(Work work,
                            region.StartAllReduce(TensorView(nullptr, DType::kF32, {0})));
        return work.Synchronize();
      },
      [](Rank& rank, RankRegion& region) -> absl::Status {
        MP_ASSIGN_OR_RETURN(Work work,
                            region.StartAllReduce(TensorView(nullptr, DType::kF32, {0})));
        MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
        MP_RETURN_IF_ERROR(rank.stream().Synchronize());
        return work.status();
      },
      [](Rank&, RankRegion& region) -> absl::Status {  // until the lead is used up
        for (;;) MP_RETURN_IF_ERROR(region.AcquireSlot());
      },
  };
}

// Every rank waits in the way `way_of(rank)` in its own Region of `regions` first.
std::vector<absl::Status> WaitIn(World& world, const std::vector<Region>& regions,
                                 const std::function<Way(int)>& way_of) {
  std::vector<absl::Status> told(regions.size());
  static_cast<void>(world.Run([&](Rank& rank) -> absl::Status {
    MP_ASSIGN_OR_RETURN(RankRegion mine, regions[At(rank.id())].ForRank(rank));
    told[At(rank.id())] = way_of(rank.id())(rank, mine);
    return absl::OkStatus();
  }));
  return told;
}

TEST(Abs3, TwoRanksInCrossedRegionsAreToldAtOnce) {
  const std::vector<Way> ways = Ways();
  for (size_t one = 0; one < ways.size(); ++one) {
    for (size_t other = 0; other < ways.size(); ++other) {
      SCOPED_TRACE(absl::StrCat("ways ", one, " and ", other));
      auto world = NewWorld(2, Forever(3));
      std::vector<Region> regions;
      for (const char* name : {"a", "b"}) {
        regions.push_back(world->NewRegion({0, 1}, {.name = name}).value());
      }
      const absl::Duration start = sync::Clock::Steady().Now();
      const std::vector<absl::Status> told =
          WaitIn(*world, regions, [&](int id) { return ways[id == 0 ? one : other]; });
      EXPECT_LT(sync::Clock::Steady().Now() - start, absl::Seconds(10));
      EXPECT_THAT(told, Each(KindIs(ErrorKind::kAbsentShard,
                                    AllOf(HasSubstr("deadlock"), HasSubstr("of Region \"a\""),
                                          HasSubstr("of Region \"b\""), HasSubstr("rank 0 waits"),
                                          HasSubstr("rank 1 waits")))));
      for (const absl::Status& status : told) {
        EXPECT_THAT(RecentOf(status), HasSubstr("rank 1: "));
      }
    }
  }
}

TEST(Abs3, ThreeInACycleAndOneBusyOutside) {
  for (size_t way = 0; way < Ways().size(); ++way) {
    SCOPED_TRACE(way);
    auto world = NewWorld(4, Forever(2));
    std::vector<Region> regions;  // rank r waits for rank r + 1; rank 3 is in all of them
    for (int id = 0; id < 3; ++id) {
      regions.push_back(
          world->NewRegion({id, (id + 1) % 3, 3}, {.name = absl::StrCat("r", id)}).value());
    }
    std::vector<absl::Status> told(3);
    Progress ended;
    static_cast<void>(world->Run([&](Rank& rank) -> absl::Status {
      if (rank.id() == 3) {
        ended.AwaitAtLeast(3);
        return absl::OkStatus();
      }
      const auto id = At(rank.id());
      MP_ASSIGN_OR_RETURN(RankRegion mine, regions[id].ForRank(rank));
      told[id] = Ways()[way](rank, mine);
      ended.Add();
      ended.AwaitAtLeast(3);  // nobody is told by the end of a function
      return absl::OkStatus();
    }));
    EXPECT_THAT(told, Each(IsDeadlock("rank 0 waits in operation")));
    EXPECT_THAT(told, Each(IsDeadlock("rank 1 waits in operation")));
    EXPECT_THAT(told, Each(IsDeadlock("rank 2 waits in operation")));
    EXPECT_THAT(told, Each(KindIs(ErrorKind::kAbsentShard, Not(HasSubstr("rank 3 waits")))));
    EXPECT_THAT(regions[0].status(), IsDeadlock("for ranks 1, 3"));
    EXPECT_OK(world->region().status());
  }
}

// Rank 0 waits for an operation that all of its ranks have posted, behind one that has not rank 1.
TEST(Abs3, AnOlderOperationIsWaitedForToo) {
  auto world = NewWorld(3, Forever());
  std::vector<Region> regions;
  const std::vector<std::vector<int>> members = {{0, 1}, {0, 2}, {1, 0}};
  for (size_t i = 0; i < members.size(); ++i) {
    regions.push_back(world->NewRegion(members[i], {.name = std::string(1, "abc"[i])}).value());
  }
  const TensorView nothing(nullptr, DType::kF32, {0});
  const auto start = [&](Rank& rank, size_t region) -> absl::StatusOr<Work> {
    MP_ASSIGN_OR_RETURN(RankRegion mine, regions[region].ForRank(rank));
    return mine.StartAllReduce(nothing);
  };
  absl::Status told;
  Progress over;
  static_cast<void>(world->Run([&](Rank& rank) -> absl::Status {
    if (rank.id() == 0) MP_RETURN_IF_ERROR(start(rank, 0));
    MP_ASSIGN_OR_RETURN(Work work, start(rank, rank.id() == 1 ? 2 : 1));
    const absl::Status status = work.Synchronize();
    if (rank.id() == 1) told = status;
    over.Add();
    over.AwaitAtLeast(3);
    return absl::OkStatus();
  }));
  EXPECT_THAT(told, IsDeadlock("rank 0 waits in operation 0 of Region \"a\" (AllReduce f32[0] sum) "
                               "for rank 1"));
  EXPECT_THAT(regions[0].status(), IsDeadlock("rank 1 waits in operation 0 of Region \"c\""));
  EXPECT_OK(regions[1].status());  // it only had to wait for the other
}

// One thread for several ranks that waits for one before it posts for the other.
TEST(Abs3, AThreadThatWaitsForItselfIsTold) {
  SKIP_UNLESS(doors_never_wait);
  for (size_t way = 0; way < Ways().size(); ++way) {
    SCOPED_TRACE(way);
    auto world = NewWorld(
        2, {.rank_threads = false, .absence_timeout = absl::InfiniteDuration(), .max_lead = 3});
    Attachment zero = world->Attach(0).value(), one = world->Attach(1).value();
    EXPECT_THAT(Ways()[way](*zero, zero->region()),
                IsDeadlock("ranks 0, 1 (one thread) wait in operation"));
  }
}

TEST(Abs3, ALateRankIsNoDeadlock) {
  for (int round = 0; round < 5; ++round) {
    auto world = NewWorld(3, Forever());
    std::vector<Region> regions;
    for (const char* name : {"a", "b"}) {
      regions.push_back(world->NewRegion({0, 1, 2}, {.name = name}).value());
    }
    Progress waiting;
    const auto post = [&](Rank& rank) -> absl::Status {
      if (rank.id() == 1) {  // computes for longer than anybody spins
        waiting.AwaitAtLeast(2);
        Dawdle(absl::Milliseconds(30));
      } else {
        waiting.Add();
      }
      for (const Region& region : regions) {
        MP_ASSIGN_OR_RETURN(RankRegion mine, region.ForRank(rank));
        MP_RETURN_IF_ERROR(mine.AcquireSlot());
        MP_RETURN_IF_ERROR(rank.stream().Synchronize());
      }
      return absl::OkStatus();
    };
    EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  }
}

// A thread whose wait ends by itself may do something else then: here it gives up.
TEST(Abs3, AWaitWithALimitIsNoDeadlock) {
  auto world = NewWorld(2, Forever());
  std::vector<Region> regions;
  for (const char* name : {"a", "b"}) {
    regions.push_back(world->NewRegion({0, 1}, {.name = name}).value());
  }
  std::vector<absl::Status> told(2);
  Progress waiting;
  static_cast<void>(world->Run([&](Rank& rank) -> absl::Status {
    const auto id = At(rank.id());
    if (id == 1) {
      waiting.AwaitAtLeast(1);
      Dawdle(absl::Milliseconds(20));
    }
    MP_ASSIGN_OR_RETURN(RankRegion mine, regions[id].ForRank(rank));
    MP_ASSIGN_OR_RETURN(Work work, mine.StartAllReduce(TensorView(nullptr, DType::kF32, {0})));
    if (id == 0) {
      waiting.Add();
      for (int i = 0; i < 40; ++i) {  // the other falls asleep meanwhile
        const absl::Status looked = work.Synchronize(absl::Milliseconds(5));
        EXPECT_TRUE(absl::IsDeadlineExceeded(looked)) << looked;
        EXPECT_EQ(KindOf(looked), ErrorKind::kNone) << looked;
      }
      for (Region& region : regions) region.Cancel("it takes too long");
    }
    told[id] = work.Synchronize();
    return absl::OkStatus();
  }));
  EXPECT_THAT(told, Each(KindIs(ErrorKind::kCancelled)));
}

// What a rank posts behind the mark that its thread waits for does not hold it up: a thread that
// drives two ranks may then post for the other.
TEST(Abs3, WhatIsBehindAMarkIsNotWaitedFor) {
  SKIP_UNLESS(doors_never_wait);
  SKIP_UNLESS(runs_unwatched);
  auto world = NewWorld(2, {.rank_threads = false, .absence_timeout = absl::InfiniteDuration()});
  Attachment zero = world->Attach(0).value(), one = world->Attach(1).value();
  Progress started;
  EXPECT_OK(zero->stream().Launch(Under().kernel([&] {
    started.Add();
    Dawdle(absl::Milliseconds(20));
  })));
  started.AwaitAtLeast(1);  // by another thread
  const Event mark = zero->stream().Record();
  EXPECT_OK(zero->region().AcquireSlot());
  EXPECT_OK(mark.Synchronize());
  EXPECT_OK(one->region().AcquireSlot());
  EXPECT_OK(zero->stream().Synchronize());
  EXPECT_OK(one->stream().Synchronize());
}

// Clean programs over overlapping Regions, every wait of every kind, with ranks that dawdle.
TEST(Abs3, CleanSchedulesAreLeftAlone) {
  constexpr int kRanks = 3;
  std::vector<std::shared_ptr<Backend>> backends = {NewBackend(kRanks)};
  int schedules = 1'000;
  if (Under().doors_never_wait) {
    backends.push_back(Under().make({.devices = kRanks, .seeded = true, .seed = 5}).value());
    schedules = 50'000;
  }
  for (const auto& backend : backends) {
    auto world = World::Create(backend, Forever(2)).value();
    const std::vector<std::vector<int>> members = {{0, 1, 2}, {2, 0}, {1, 2}, {0, 1}};
    std::vector<Region> regions;
    for (const auto& ranks : members) regions.push_back(world->NewRegion(ranks).value());
    std::mt19937_64 random(17);
    const TensorView nothing(nullptr, DType::kF32, {0});
    for (int schedule = 0; schedule < schedules; ++schedule) {
      const uint64_t program = random();
      const absl::Status status = world->Run([&](Rank& rank) -> absl::Status {
        std::mt19937_64 same(program), own(program + 1 + At(rank.id()));
        for (int i = 0; i < 3; ++i) {
          const size_t which = same() % regions.size();
          const bool overlaps = same() % 3 == 0;
          const auto& ranks = members[which];
          if (std::find(ranks.begin(), ranks.end(), rank.id()) == ranks.end()) continue;
          if (own() % 4 == 0) sync::Yield();
          MP_ASSIGN_OR_RETURN(RankRegion mine, regions[which].ForRank(rank));
          Work work;
          if (overlaps) {
            MP_ASSIGN_OR_RETURN(work, mine.StartAllReduce(nothing));
          } else {
            MP_RETURN_IF_ERROR(mine.AcquireSlot());
          }
          const auto wait = own() % 4;
          if (wait == 0) MP_RETURN_IF_ERROR(rank.stream().Synchronize());
          if (wait == 1) MP_RETURN_IF_ERROR(work.Synchronize());
          if (wait == 2) MP_RETURN_IF_ERROR(work.Wait(rank.stream()));
        }
        return absl::OkStatus();
      });
      ASSERT_OK(status) << "schedule " << schedule << " of program " << program;
    }
  }
}

}  // namespace
}  // namespace mp::test
