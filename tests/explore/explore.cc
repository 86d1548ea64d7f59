#include "tests/explore/explore.h"

#include <time.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/explore/engine.h"

namespace mp::explore {
namespace {

const Strategy* running = nullptr;

// A run that ends the process names itself first.
void OnSignal(int signal) {
  if (running != nullptr) {
    std::fprintf(stderr, "explore: signal %d in the run MP_EXPLORE_REPLAY=%s\n", signal,
                 running->Token().c_str());
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::unique_ptr<Strategy> NewStrategy(const Options& options, const std::string& replay,
                                      bool endless) {
  if (!replay.empty()) return NewReplay(replay);
  if (options.points != 0) return NewExhaustive(options.exhaustive);
  return NewRandom(endless ? ~uint64_t{0} : options.runs, options.first_seed);
}

}  // namespace

Outcome Explore(const Options& options, const std::function<void()>& body) {
  const bool told = options.replay.empty();
  const std::string replay = told ? Environment("MP_EXPLORE_REPLAY") : options.replay;
  const double seconds = std::strtod(Environment("MP_EXPLORE_SECONDS").c_str(), nullptr);
  const double end = Seconds() + seconds;
  const std::unique_ptr<Strategy> strategy = NewStrategy(options, replay, seconds > 0);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, OnSignal);
  Outcome outcome;
  while (outcome.failure.empty()) {
    if (seconds > 0 ? Seconds() > end : outcome.runs == options.runs) break;
    if (!strategy->Begin()) {
      outcome.complete = strategy->complete();
      break;
    }
    running = strategy.get();
    {
      Engine engine(*strategy, std::max(options.points, 0));
      engine.set_prints(told && !replay.empty());
      engine.Run(body);
      outcome.failure = engine.failure();
      outcome.steps += engine.steps();
    }
    running = nullptr;
    ++outcome.runs;
    outcome.redundant += strategy->redundant();
    outcome.token = strategy->Token();
    strategy->End();
  }
  return outcome;
}

std::string Describe(const Outcome& outcome) {
  std::string text =
      absl::StrCat(outcome.runs, " schedules", outcome.complete ? ", all of them" : "", " (",
                   outcome.redundant, " equivalent to others), ", outcome.steps, " points");
  if (!outcome.failure.empty()) {
    absl::StrAppend(&text, "\n", outcome.failure, "\nMP_EXPLORE_REPLAY=", outcome.token);
  }
  return text;
}

void Expect(bool holds, const std::string& what) {
  if (!holds) Engine::Current()->Fail(what);
}

void OpenWindow() { Engine::Current()->OpenWindow(); }

void Gate::Pass() {
  Engine::Current()->CountPoints();
  if (left_.fetch_sub(1, sync::kAcqRel) == 1) OpenWindow();
  while (left_.load(sync::kAcquire) > 0) sync::Yield();
}

}  // namespace mp::explore
