// Proves that the scheduler and the host engine end right in every schedule of the first points of
// a few ranks, and in random schedules of up to 8 ranks: threads interleaved at every lock, wait
// and atomic operation, loads that lag behind, waits that end for no reason (WAK-1).
//
// How many schedules ran is printed.  For longer runs see tests/explore/explore.h.

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/explore/explore.h"
#include "tests/explore/scenarios.h"

namespace mp::explore {
namespace {

using host::Execution;

struct Case {
  Scenario scenario;
  Execution execution;
};

const char* NameOf(Execution execution) {
  return execution == Execution::kPool ? "Pool" : "Inline";
}

class WorldTest : public testing::TestWithParam<Case> {
 protected:
  void Check(int ranks, const Options& options) {
    const auto& [scenario, execution] = GetParam();
    const Outcome outcome =
        Explore(options, [&] { scenario.run({.ranks = ranks, .execution = execution}); });
    EXPECT_EQ(outcome.failure, "") << ranks << " ranks: MP_EXPLORE_REPLAY=" << outcome.token;
    if (!outcome.failure.empty()) return;
    std::printf("%d ranks%s: %s\n", ranks,
                options.points > 0 ? absl::StrCat(" x ", options.points, " points").c_str() : "",
                Describe(outcome).c_str());
  }
};

// All are more than a test of a minute can run: it ends here, where MP_EXPLORE_SECONDS does not
// tell it to go on.
constexpr uint64_t kMostRuns = 1200;

TEST_P(WorldTest, EveryScheduleOfTwoRanks) { Check(2, {.points = 12, .runs = kMostRuns}); }

TEST_P(WorldTest, EveryScheduleOfThreeRanks) { Check(3, {.points = 6, .runs = kMostRuns / 2}); }

TEST_P(WorldTest, RandomSchedules) {
  for (const int ranks : {2, 3, 5, 8}) Check(ranks, {.runs = 200 / static_cast<uint64_t>(ranks)});
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Scenario& scenario : Scenarios()) {
    for (const Execution execution : {Execution::kInline, Execution::kPool}) {
      cases.push_back({scenario, execution});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, WorldTest, testing::ValuesIn(Cases()), [](const auto& named) {
  return absl::StrCat(named.param.scenario.name, NameOf(named.param.execution));
});

}  // namespace
}  // namespace mp::explore
