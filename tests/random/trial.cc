#include "tests/random/trial.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mp/base/sync.h"
#include "tests/random/predict.h"
#include "tests/random/program.h"
#include "tests/random/session.h"

namespace mp::test {
namespace {

constexpr absl::Duration kLimit = absl::Minutes(2);

// Ends the process where a trial does not end.
class Watch {
 public:
  explicit Watch(std::string what) : what_(std::move(what)) {
    thread_ = sync::Thread::Start("watch", [this] { Wait(); }).value();
  }
  ~Watch() {
    done_.store(true);
    signal_.Raise();
    thread_.Join();
  }

 private:
  void Wait() {
    const absl::Duration begin = sync::Clock::Steady().Now();
    while (true) {
      const uint32_t seen = signal_.Prepare();
      if (done_.load()) return signal_.Cancel();
      const absl::Duration left = kLimit - (sync::Clock::Steady().Now() - begin);
      if (left <= absl::ZeroDuration()) break;
      signal_.Sleep(sync::Clock::Steady(), seen, left);
    }
    std::fprintf(stderr, "%s: has not ended within two minutes\n", what_.c_str());
    std::abort();
  }

  const std::string what_;
  std::atomic<bool> done_{false};
  sync::Signal signal_;
  sync::Thread thread_;
};

class Player {
 public:
  Player(const Target& target, uint64_t seed, Profile profile)
      : target_(target), seed_(seed), profile_(profile), random_(seed) {}

  Trial Play() {
    const std::string what = absl::StrCat("--target=", target_.name, " --seed=", seed_);
    const Watch watch(what);
    const bool wrong = random_.OneIn(profile_ == Profile::kBroad ? 3 : 6);
    SessionOptions session;
    const int least = wrong || profile_ == Profile::kLong ? 2 : 1;
    session.ranks = least + random_.Below(target_.most_ranks - least + 1);
    if (profile_ == Profile::kLong && random_.OneIn(2)) session.ranks = std::min(session.ranks, 3);
    session.seed = seed_;
    const bool broad = profile_ == Profile::kBroad;
    session.stepped = target_.stepped && !wrong && random_.OneIn(broad ? 3 : 1);
    const bool far = !broad && !random_.OneIn(12);
    session.max_lead = session.stepped ? 1 << 20 : far ? 256 : random_.Pick<int>({1, 2, 7, 256});
    stepped_ = session.stepped;
    session_.emplace(target_, session);
    if (wrong) Run(session.ranks, true);
    Run(session.ranks, false);
    Report(session_->End(), nullptr);
    if (!trial_.failure.empty()) trial_.failure = absl::StrCat(what, "\n", trial_.failure);
    return std::move(trial_);
  }

 private:
  void Run(int ranks, bool wrong) {
    const bool is_long = profile_ == Profile::kLong && !wrong && !trial_.fault;
    ProgramOptions options{.ranks = ranks,
                           .steps = wrong ? target_.steps / 2 : target_.steps,
                           .variants = wrong              ? 1
                                       : is_long          ? 3
                                       : random_.OneIn(2) ? 2
                                                          : 1,
                           .is_long = is_long,
                           .graphs = !stepped_,
                           .wrong = wrong,
                           .folds_in_rank_order = target_.folds_in_rank_order,
                           .reduces_at_any_byte = target_.reduces_at_any_byte};
    Program program = NewProgram(seed_ + (wrong ? 1 << 20 : 0), options);
    Predict(program);
    int rounds = program.variants * (program.variants == 1 ? 1 : 1 + random_.Below(3));
    if (is_long) rounds = program.variants * (stepped_ ? 100 : target_.rounds);
    // What was drawn may have no operation of several ranks.
    trial_.fault = trial_.fault || program.wrong != Wrong::kNothing;
    Report(absl::StrJoin(session_->Run(program, rounds), "\n"), &program);
    ++trial_.programs;
    if (program.wrong != Wrong::kNothing) return;
    trial_.operations += program.operations * rounds;
    trial_.moving += program.moving * rounds;
  }

  void Report(const std::string& failure, const Program* program) {
    if (failure.empty()) return;
    absl::StrAppend(&trial_.failure, failure, "\n", program == nullptr ? "" : program->ToString());
  }

  const Target& target_;
  const uint64_t seed_;
  const Profile profile_;
  Random random_;
  bool stepped_ = false;
  std::optional<Session> session_;
  Trial trial_;
};

}  // namespace

Trial RunTrial(const Target& target, uint64_t seed, Profile profile) {
  return Player(target, seed, profile).Play();
}

}  // namespace mp::test
