// Proves that the explorer notices each memory order of mp that is weaker than it should be: every
// acquire, release and sequential consistency that the scenarios meet is taken away in turn, at its
// one place in the code, and some schedule must then fail.
//
// What is noticed, by which scenario and how is printed.  Each weakening has a process of its own,
// which may well crash.

#include "tests/explore/weakening.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/explore/explore.h"
#include "tests/explore/scenarios.h"

namespace mp::explore {
namespace {

using host::Execution;

constexpr Execution kExecutions[] = {Execution::kInline, Execution::kPool};
constexpr int kRanks[] = {2, 3};
// Per scenario, in one process.
constexpr uint64_t kRounds[] = {4, 30};

// Of the process that runs a weakening.
enum Exit { kSurvived = 10, kNoticed = 11 };

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// Ends the process.
[[noreturn]] void RunWeakened(const Weakening& weakening) {
  Weaken(&weakening);
  uint64_t seed = 1;
  for (const uint64_t runs : kRounds) {
    for (const Scenario& scenario : Scenarios()) {
      for (const Execution execution : kExecutions) {
        for (const int ranks : kRanks) {
          Weaken(&weakening);  // not met yet
          const auto body = [&] { scenario.run({.ranks = ranks, .execution = execution}); };
          Outcome outcome = Explore({.runs = 2, .first_seed = seed}, body);
          if (outcome.failure.empty() && WeakenedPlaceWasMet()) {
            outcome = Explore({.runs = runs, .first_seed = seed + 2}, body);
          }
          if (outcome.failure.empty()) continue;
          std::printf("%s: %s, %d ranks: %s\n", Describe(weakening).c_str(), scenario.name, ranks,
                      FirstLine(outcome.failure).c_str());
          std::fflush(stdout);
          _exit(kNoticed);
        }
      }
    }
    seed += 1000;
  }
  _exit(kSurvived);
}

bool IsNoticed(const Weakening& weakening) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) RunWeakened(weakening);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::printf("%s: crashes\n", Describe(weakening).c_str());
    return true;
  }
  const int code = WEXITSTATUS(status);
  EXPECT_TRUE(code == kSurvived || code == kNoticed) << Describe(weakening) << ": exit " << code;
  return code == kNoticed;
}

TEST(WeakeningTest, EachWeakenedOrderIsNoticed) {
  NoteOrders(true);
  for (const Scenario& scenario : Scenarios()) {
    for (const Execution execution : kExecutions) {
      for (const int ranks : kRanks) {
        const Outcome outcome =
            Explore({.runs = 10}, [&] { scenario.run({.ranks = ranks, .execution = execution}); });
        ASSERT_EQ(outcome.failure, "") << scenario.name;
      }
    }
  }
  NoteOrders(false);
  int noticed = 0;
  std::vector<std::string> survivors;
  for (const Weakening& weakening : PossibleWeakenings("mp/")) {
    if (IsNoticed(weakening)) {
      ++noticed;
    } else {
      survivors.push_back(Describe(weakening));
      std::printf("%s: not noticed\n", survivors.back().c_str());
    }
  }
  std::printf("%d weakenings noticed, %zu not:\n", noticed, survivors.size());
  for (const std::string& survivor : survivors) std::printf("  %s\n", survivor.c_str());
}

}  // namespace
}  // namespace mp::explore
