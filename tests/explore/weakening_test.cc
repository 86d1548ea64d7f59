// Proves that the explorer notices memory orders of mp that are weaker than they should be: every
// acquire, release and sequential consistency that the scenarios meet is taken away in turn, at its
// one place in the code, until some schedule fails.
//
// What is noticed, by which scenario and how is printed.  Each weakening has a process of its own,
// which may well crash.

#include "tests/explore/weakening.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
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
constexpr uint64_t kRounds[] = {3, 20};

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

// How many are noticed in each file, at least.  The rest are printed: in most of them another order
// (a lock's, above all) covers what the one that is gone did, and a few need a schedule that none
// of these runs is.
struct File {
  const char* path;
  int noticed;
};
constexpr File kFiles[] = {
    {"mp/base/signal-inl.h", 0}, {"mp/flight.cc", 0},        {"mp/group.cc", 0},
    {"mp/group_alone.cc", 0},    {"mp/group_failure.cc", 0}, {"mp/group_graph.cc", 0},
    {"mp/host/executor.cc", 0},  {"mp/host/executor.h", 0},  {"mp/host/graph.cc", 0},
    {"mp/host/operation.cc", 0}, {"mp/host/stream.cc", 0},   {"mp/host/stream.h", 0},
    {"mp/stall_watches.h", 0},   {"mp/stream.cc", 0},        {"mp/world_run.cc", 0},
    {"mp/world_state.cc", 0},
};

// All that the scenarios meet.
const std::vector<Weakening>& All() {
  static const auto* const all = [] {
    NoteOrders(true);
    for (const Scenario& scenario : Scenarios()) {
      for (const Execution execution : kExecutions) {
        for (const int ranks : kRanks) {
          const Outcome outcome = Explore(
              {.runs = 10}, [&] { scenario.run({.ranks = ranks, .execution = execution}); });
          EXPECT_EQ(outcome.failure, "") << scenario.name;
        }
      }
    }
    NoteOrders(false);
    return new std::vector<Weakening>(PossibleWeakenings("mp/"));
  }();
  return *all;
}

TEST(WeakeningTest, TheTableHasEveryFile) {
  for (const Weakening& weakening : All()) {
    EXPECT_TRUE(std::any_of(std::begin(kFiles), std::end(kFiles), [&](const File& file) {
      return file.path == weakening.file;
    })) << Describe(weakening);
  }
}

class FileTest : public testing::TestWithParam<File> {};

TEST_P(FileTest, WeakenedOrdersAreNoticed) {
  int noticed = 0, survived = 0;
  for (const Weakening& weakening : All()) {
    if (weakening.file != GetParam().path) continue;
    if (IsNoticed(weakening)) {
      ++noticed;
    } else {
      ++survived;
      std::printf("%s: not noticed\n", Describe(weakening).c_str());
    }
  }
  std::printf("%s: %d noticed, %d not\n", GetParam().path, noticed, survived);
  EXPECT_GE(noticed, GetParam().noticed);
}

INSTANTIATE_TEST_SUITE_P(Files, FileTest, testing::ValuesIn(kFiles), [](const auto& named) {
  std::string name = named.param.path;
  for (char& c : name) c = absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace mp::explore
