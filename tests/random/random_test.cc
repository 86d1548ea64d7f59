// Random programs give what an oracle gives, bit by bit; those in which something goes wrong end,
// with one cause for all ranks, and leave nothing behind.  Each case is one form of a backend.
//
//   bazel test --test_env=MP_RANDOM_SEED=17 ...     # that one alone
//   bazel test --test_env=MP_RANDOM_SECONDS=600 --test_timeout=86400 ...   # each case so long

#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "mp/base/check.h"
#include "mp/base/sync.h"
#include "tests/random/target.h"
#include "tests/random/trial.h"

namespace mp::test {
namespace {

// What the environment says, or -1.
int64_t FromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  int64_t value = -1;
  MP_CHECK(text == nullptr || (absl::SimpleAtoi(text, &value) && value >= 0));
  return value;
}

class RandomPrograms : public ::testing::TestWithParam<size_t> {};

TEST_P(RandomPrograms, GiveWhatTheOracleGives) {
  const Target target = TheseTargets()[GetParam()];
  const int64_t seed = FromEnvironment("MP_RANDOM_SEED");
  const int64_t seconds = FromEnvironment("MP_RANDOM_SECONDS");
  const absl::Duration begin = sync::Clock::Steady().Now();
  for (int64_t i = seed >= 0 ? seed : 1; seed < 0 || i == seed; ++i) {
    const absl::Duration spent = sync::Clock::Steady().Now() - begin;
    if (seconds >= 0 ? spent > absl::Seconds(seconds) : i > target.trials) break;
    const Trial trial = RunTrial(target, static_cast<uint64_t>(i), Profile::kBroad);
    if (!trial.failure.empty()) FAIL() << trial.failure;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, RandomPrograms, ::testing::Range<size_t>(0, TheseTargets().size()),
                         [](const auto& form) {
                           std::string name = TheseTargets()[form.param].name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace mp::test
