// Random programs from changing seeds for as long as one likes, most of them of many small
// operations; called by tools/soak.
//
//   soak [--minutes=N] [--ops=N] [--first=SEED]       # until one of the two is reached
//   soak --target=NAME --seed=SEED [--broad]          # one program again
//
// Exit codes: 0 all as it must be, 1 a failure, 2 wrong usage.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "mp/base/sync.h"
#include "tests/random/trial.h"

namespace mp::test {
namespace {

struct Arguments {
  double minutes = 5;
  int64_t operations = INT64_MAX;
  std::optional<uint64_t> first;
  std::optional<uint64_t> seed;
  std::string target;
  bool broad = false;
};

std::optional<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    bool ok = true;
    if (absl::ConsumePrefix(&text, "--minutes=")) {
      ok = absl::SimpleAtod(text, &arguments.minutes) && arguments.minutes > 0;
    } else if (absl::ConsumePrefix(&text, "--ops=")) {
      ok = absl::SimpleAtoi(text, &arguments.operations) && arguments.operations > 0;
    } else if (absl::ConsumePrefix(&text, "--first=")) {
      ok = absl::SimpleAtoi(text, &arguments.first.emplace());
    } else if (absl::ConsumePrefix(&text, "--seed=")) {
      ok = absl::SimpleAtoi(text, &arguments.seed.emplace());
    } else if (absl::ConsumePrefix(&text, "--target=")) {
      arguments.target = std::string(text);
    } else if (text == "--broad") {
      arguments.broad = true;
    } else {
      ok = false;
    }
    if (ok) continue;
    std::fprintf(stderr,
                 "soak: %s: one of --minutes=N --ops=N --first=SEED, or --target=NAME "
                 "--seed=SEED [--broad]\n",
                 argv[i]);
    return std::nullopt;
  }
  return arguments;
}

std::vector<Target> TargetsOf(const Arguments& arguments) {
  std::vector<Target> targets = HostTargets();
  for (const Target& target : FakeTargets()) targets.push_back(target);
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  if (arguments.target.empty() && !arguments.seed.has_value()) return targets;
  std::erase_if(targets, [&](const Target& it) { return it.name != arguments.target; });
  if (targets.empty()) {
    std::fprintf(stderr, "soak: --target=%s: one of %s\n", arguments.target.c_str(),
                 absl::StrJoin(names, ", ").c_str());
  }
  return targets;
}

class Soak {
 public:
  Soak(const Arguments& arguments, std::vector<Target> targets)
      : arguments_(arguments), targets_(std::move(targets)), spent_(targets_.size()) {}

  int Run() {
    uint64_t seed = arguments_.first.value_or(std::random_device()());
    std::printf("seeds from %" PRIu64 "\n", seed);
    const absl::Duration limit = absl::Minutes(1) * arguments_.minutes;
    const absl::Duration begin = Now();
    for (; Now() - begin < limit && sum_.operations < arguments_.operations; ++seed) {
      Play(Next(), seed, seed % 50 == 0 ? Profile::kBroad : Profile::kLong);
      if (Now() - begin < told_ + absl::Minutes(1)) continue;
      told_ = Now() - begin;
      Tell(Now() - begin);
    }
    Tell(Now() - begin);
    for (size_t i = 0; i < targets_.size(); ++i) {
      const Trial& of = by_target_[targets_[i].name];
      std::printf("  %-16s %12" PRId64 " operations %8" PRId64 " programs\n",
                  targets_[i].name.c_str(), of.operations, of.programs);
    }
    std::printf("failures %zu%s\n", failed_.size(), failed_.empty() ? "" : ":");
    for (const std::string& failed : failed_) std::printf("  %s\n", failed.c_str());
    return failed_.empty() ? 0 : 1;
  }

  int Replay() {
    Play(0, *arguments_.seed, arguments_.broad ? Profile::kBroad : Profile::kLong);
    std::printf("failures %zu\n", failed_.size());
    return failed_.empty() ? 0 : 1;
  }

 private:
  static absl::Duration Now() { return sync::Clock::Steady().Now(); }

  // Whose turn it is: the fakes have a sixth of the time.
  size_t Next() const {
    const auto due = [&](size_t i) {
      return spent_[i] * (targets_[i].name.rfind("host", 0) == 0 ? 1 : 7);
    };
    size_t next = 0;
    for (size_t i = 1; i < targets_.size(); ++i) {
      if (due(i) < due(next)) next = i;
    }
    return next;
  }

  void Play(size_t i, uint64_t seed, Profile profile) {
    const Target& target = targets_[i];
    const absl::Duration begin = Now();
    const Trial trial = RunTrial(target, seed, profile);
    spent_[i] += Now() - begin;
    ++trials_;
    faults_ += trial.fault ? 1 : 0;
    for (Trial* sum : {&sum_, &by_target_[target.name]}) {
      sum->operations += trial.operations;
      sum->moving += trial.moving;
      sum->programs += trial.programs;
    }
    if (trial.failure.empty()) return;
    failed_.push_back(absl::StrCat("--target=", target.name, " --seed=", seed,
                                   profile == Profile::kBroad ? " --broad" : ""));
    std::printf("FAILED %s\n%s\n", failed_.back().c_str(), trial.failure.c_str());
    std::fflush(stdout);
  }

  void Tell(absl::Duration after) const {
    const auto share = [](int64_t part, int64_t whole) {
      return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
    };
    std::printf("%.0f s: operations %" PRId64
                " (%.0f%% with data among 2 ranks and more), programs %" PRId64
                ", faults injected %" PRId64 " (%.0f%% of %" PRId64 " runs), failures %zu\n",
                absl::ToDoubleSeconds(after), sum_.operations, share(sum_.moving, sum_.operations),
                sum_.programs, faults_, share(faults_, trials_), trials_, failed_.size());
    std::fflush(stdout);
  }

  const Arguments arguments_;
  const std::vector<Target> targets_;
  std::vector<absl::Duration> spent_;
  std::map<std::string, Trial> by_target_;
  Trial sum_;
  int64_t trials_ = 0;
  int64_t faults_ = 0;
  std::vector<std::string> failed_;  // what runs them again
  absl::Duration told_;
};

int Main(int argc, char** argv) {
  const std::optional<Arguments> arguments = Parse(argc, argv);
  if (!arguments.has_value()) return 2;
  std::vector<Target> targets = TargetsOf(*arguments);
  if (targets.empty()) return 2;
  Soak soak(*arguments, std::move(targets));
  return arguments->seed.has_value() ? soak.Replay() : soak.Run();
}

}  // namespace
}  // namespace mp::test

int main(int argc, char** argv) { return mp::test::Main(argc, argv); }
