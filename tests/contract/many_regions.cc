// MAN-1, MAN-2: Regions by the hundred: opened and closed in rows, and used side by side.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "tests/contract/drive.h"

namespace mp::test {
namespace {

using ::testing::Each;

TEST(Man1, RegionsAreOpenedInARowAndClosedAgain) {
  constexpr int kRegions = 60, kRows = 20;
  auto world = NewWorld(3);
  for (int row = 0; row < kRows; ++row) {
    std::vector<Region> regions;
    std::deque<Call> calls;
    for (int i = 0; i < kRegions; ++i) {
      const std::vector<int> ranks = {i % 3, (i + 1) % 3};
      ASSERT_OK_AND_ASSIGN(Region region,
                           world->NewRegion(ranks, {.name = absl::StrCat("row ", row, ".", i)}));
      regions.push_back(region);
      if (i % 10 == row % 10) {
        calls.emplace_back(*world, ranks, CallSpec{.inputs = Inputs::kInPlace});
        EXPECT_OK(calls.back().Post(region));
      }
    }
    EXPECT_OK(world->Synchronize());
    for (const Call& call : calls) call.ExpectDone();
    // In another order.
    for (size_t i = 0; i < regions.size(); ++i) regions[i * 7 % regions.size()].Close();
  }
}

// Every rank goes through the Regions that it is a member of in the order in which they were made,
// queues all of its operations and waits once.
TEST(Man2, ManyRegionsOfManyRanksGiveTheirResults) {
  constexpr int kRanks = 8, kRegions = 128, kRounds = 2;
  auto world = NewWorld(kRanks);
  std::mt19937_64 random(7);
  std::vector<std::vector<int>> lists;
  for (int i = 0; i < 16; ++i) {
    std::vector<int> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (random() % 2 == 0) ranks.push_back(rank);
    }
    while (ranks.size() < 2) ranks.push_back(ranks.empty() ? 0 : (ranks[0] + 1) % kRanks);
    std::shuffle(ranks.begin(), ranks.end(), random);
    lists.push_back(ranks);
  }
  struct Step {
    Region region;
    std::deque<Call> calls;
  };
  std::deque<Step> steps;
  for (int i = 0; i < kRegions; ++i) {
    const std::vector<int>& ranks = lists[At(i % 16)];
    steps.push_back(Step{.region = world->NewRegion(ranks).value(), .calls = {}});
    for (int round = 0; round < kRounds; ++round) {
      CallSpec spec;
      spec.seed = random();
      spec.kind =
          std::vector{OpKind::kAllReduce, OpKind::kGather, OpKind::kAllGather}[random() % 3];
      if (spec.kind == OpKind::kAllReduce) spec.inputs = Inputs::kInPlace;
      spec.root = static_cast<int>(random() % ranks.size());
      steps.back().calls.emplace_back(*world, ranks, spec);
    }
  }
  const auto post = [&](Rank& rank) -> absl::Status {
    std::vector<Work> works;
    for (int round = 0; round < kRounds; ++round) {
      for (Step& step : steps) {
        absl::StatusOr<RankRegion> mine = step.region.ForRank(rank);
        if (!mine.ok()) continue;  // no member
        const Call& call = step.calls[At(round)];
        if (round % 2 == 0) {
          MP_RETURN_IF_ERROR(call.Post(*mine));
        } else {
          MP_ASSIGN_OR_RETURN(Work work, call.Start(*mine));
          works.push_back(work);
        }
      }
    }
    for (const Work& work : works) MP_RETURN_IF_ERROR(work.Synchronize());
    return absl::OkStatus();
  };
  EXPECT_THAT(Drive(*world, post), Each(IsOk()));
  for (const Step& step : steps) {
    for (const Call& call : step.calls) call.ExpectDone();
  }
}

}  // namespace
}  // namespace mp::test
