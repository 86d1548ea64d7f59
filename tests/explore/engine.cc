#include "tests/explore/engine.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace mp::explore {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
// A run that does more than this does not end.
constexpr uint64_t kMostSteps = 300'000;
// So often may everybody look in vain before the time goes on, or before it is said that nobody
// will ever find what he looks for.
constexpr uint64_t kIdleRounds = 64;
constexpr size_t kPastSteps = 48;

// When a run begins.
const absl::Duration kBegin = absl::Hours(1);

Engine* current_engine = nullptr;
uint64_t runs = 0;

// Stacks between two runs; and those of runs that did not end, which hold what was theirs.
struct Stacks {
  std::vector<std::unique_ptr<test::Fiber>> free, abandoned;
};
Stacks& AllStacks() {
  static auto* stacks = new Stacks;
  return *stacks;
}

}  // namespace

const char* Name(OpKind kind) {
  constexpr const char* kNames[] = {"begin",  "load", "store", "update", "lock",  "try lock",
                                    "unlock", "wait", "sleep", "wake",   "yield", "join"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Describe(const Site& site) { return absl::StrCat(site.file_name(), ":", site.line()); }

std::string Describe(const Op& op) {
  return op.kind == OpKind::kBegin ? Name(op.kind)
                                   : absl::StrCat(Name(op.kind), " ", Describe(op.site));
}

Engine* Engine::Current() { return current_engine; }

Engine::Engine(Strategy& strategy, int points)
    : strategy_(strategy), points_(points), open_(points == 0), now_(kBegin) {}

Engine::~Engine() {
  for (const auto& thread : threads_) {
    auto& stacks = thread->done ? AllStacks().free : AllStacks().abandoned;
    stacks.push_back(std::move(thread->fiber));
  }
}

std::unique_ptr<test::Fiber> Engine::TakeFiber() {
  auto& free = AllStacks().free;
  if (free.empty()) return std::make_unique<test::Fiber>(kStackBytes);
  std::unique_ptr<test::Fiber> fiber = std::move(free.back());
  free.pop_back();
  return fiber;
}

void Engine::Run(std::function<void()> body) {
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler what_a_failed_run_leaves;
#endif
  current_engine = this;
  run_ = ++runs;
  Start("main", std::move(body));
  picked_ = 0;
  while (true) {
    Resume(picked_);
    if (threads_[static_cast<size_t>(current_)]->done) {
      ++changes_;
      if (++ended_ == threads_.size()) break;
      picked_ = Pick();
    }
    if (picked_ < 0) break;
  }
  current_engine = nullptr;
}

void Engine::Resume(int thread) {
  Thread& resumed = *threads_[static_cast<size_t>(thread)];
  current_ = thread;
  Note(thread);
  void* const globals = abi::__cxa_get_globals();
  void* outside[2];
  std::memcpy(outside, globals, sizeof outside);
  std::memcpy(globals, resumed.exceptions, sizeof outside);
  resumed.fiber->Resume();
  std::memcpy(resumed.exceptions, globals, sizeof outside);
  std::memcpy(globals, outside, sizeof outside);
}

int Engine::Start(std::string name, std::function<void()> body) {
  const Quiet quiet;
  const int id = static_cast<int>(threads_.size());
  if (id == kMaxThreads) {
    std::fprintf(stderr, "explore: more than %d threads\n", kMaxThreads);
    std::abort();
  }
  auto thread = std::make_unique<Thread>();
  thread->name = std::move(name);
  thread->fiber = TakeFiber();
  thread->points_left = points_;
  if (current_ >= 0) {
    ++clock()[current_];
    thread->clock = clock();
  }
  thread->clock[id] = 1;
  Thread* const started = thread.get();
  thread->fiber->Start([started, id, body = std::move(body)] {
    Quiet::on_ = false;
    body();
    Quiet::on_ = true;
    ++started->clock[id];
    started->done = true;
  });
  ops_.push_back(thread->next);
  threads_.push_back(std::move(thread));
  return id;
}

void Engine::Point(OpKind kind, const void* object, const Site& site) {
  Thread& self = *threads_[static_cast<size_t>(current_)];
  self.next = ops_[static_cast<size_t>(current_)] = Op{kind, object, site};
  if (kind == OpKind::kYield) {
    self.changes_seen = changes_;
    self.yielded_at = steps_;
  }
  const int before = current_;
  picked_ = Pick();
  if (picked_ == before) {
    Note(before);
  } else {
    self.fiber->Yield();
  }
  ++self.clock[before];
}

// The thread begins what it is about to do.
void Engine::Note(int thread) {
  Thread& self = *threads_[static_cast<size_t>(thread)];
  counts_ = Counts(self);
  if (counts_) --self.points_left;
  const OpKind kind = self.next.kind;
  if (kind != OpKind::kLoad && kind != OpKind::kYield && kind != OpKind::kBegin) ++changes_;
  const Past past = {thread, self.next};
  if (past_.size() < kPastSteps) {
    past_.push_back(past);
  } else {
    past_[steps_ % kPastSteps] = past;
  }
  ++steps_;
  if (!prints_) return;
  std::fprintf(stderr, "%6llu  %-10s  %-12s %s\n", static_cast<unsigned long long>(steps_),
               absl::FormatDuration(now_ - kBegin).c_str(), self.name.c_str(),
               explore::Describe(self.next).c_str());
}

bool Engine::CanGoOn(const Thread& thread) const {
  if (thread.done) return false;
  switch (thread.next.kind) {
    case OpKind::kLock:
      return static_cast<const LockState*>(thread.next.object)->holder < 0;
    case OpKind::kAsleep:
      return thread.awake;
    case OpKind::kJoin:
      return static_cast<const Thread*>(thread.next.object)->done;
    default:
      return true;
  }
}

int Engine::Pick() {
  if (!failure_.empty() && steps_ > 2 * kMostSteps) return -1;
  if (steps_ > kMostSteps) {
    Fail(absl::StrCat("the run does not end: ", steps_, " steps\n", Describe()));
    return -1;
  }
  Situation situation;
  situation.ops = ops_.data();
  while (true) {
    uint32_t looking = 0;  // yielded, and nothing has changed since
    situation.yielded = situation.runnable = situation.counted = 0;
    situation.next_yielded = -1;
    for (size_t i = 0; i < threads_.size(); ++i) {
      const Thread& thread = *threads_[i];
      const uint32_t bit = uint32_t{1} << i;
      if (!CanGoOn(thread)) continue;
      if (Counts(thread)) situation.counted |= bit;
      if (thread.next.kind != OpKind::kYield) {
        situation.runnable |= bit;
        continue;
      }
      (thread.changes_seen == changes_ ? looking : situation.yielded) |= bit;
      if (situation.next_yielded < 0 ||
          thread.yielded_at < threads_[static_cast<size_t>(situation.next_yielded)]->yielded_at) {
        situation.next_yielded = static_cast<int>(i);
      }
    }
    if (std::exchange(changes_before_, changes_) != changes_) idle_rounds_ = 0;
    if (situation.runnable == 0 && idle_rounds_ >= kIdleRounds && PassTime()) continue;
    if ((situation.runnable | situation.yielded) == 0) situation.yielded = looking;
    if ((situation.runnable | situation.yielded) != 0) {
      if (++idle_rounds_ <= 100 * kIdleRounds) return strategy_.Pick(situation);
      Fail(absl::StrCat("livelock: whoever does not sleep looks in vain\n", Describe()));
      return -1;
    }
    if (PassTime()) continue;
    Fail(absl::StrCat("deadlock: nobody can go on\n", Describe()));
    return -1;
  }
}

// To the next moment at which a wait ends; false where all waits are endless.
bool Engine::PassTime() {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& thread : threads_) {
    if (thread->done || thread->next.kind != OpKind::kAsleep || thread->awake) continue;
    next = std::min(next, thread->deadline);
  }
  if (next == absl::InfiniteDuration()) return false;
  now_ = std::max(now_, next);
  for (const auto& thread : threads_) {
    if (thread->done || thread->next.kind != OpKind::kAsleep || thread->awake) continue;
    if (thread->deadline <= now_) thread->awake = thread->timed_out = true;
  }
  idle_rounds_ = 0;
  return true;
}

void Engine::Join(int thread, const Site& site) {
  Point(OpKind::kJoin, threads_[static_cast<size_t>(thread)].get(), site);
  clock().Join(threads_[static_cast<size_t>(thread)]->clock);
}

bool Engine::Sleep(const void* word, absl::Duration timeout, const Site& site) {
  if (timeout <= absl::ZeroDuration()) return false;
  Thread& self = *threads_[static_cast<size_t>(current_)];
  self.deadline = timeout == absl::InfiniteDuration() ? timeout : now_ + timeout;
  self.timed_out = false;
  self.awake = Choose(2, Choice::kEarly) != 0;
  Point(OpKind::kAsleep, word, site);
  self.awake = true;
  return !self.timed_out;
}

void Engine::WakeSleepers(const void* word, int count) {
  for (const auto& thread : threads_) {
    if (count <= 0) return;
    if (thread->done || thread->next.kind != OpKind::kAsleep || thread->awake) continue;
    if (thread->next.object != word) continue;
    thread->awake = true;
    --count;
  }
}

void Engine::OpenWindow() { open_ = true; }

void Engine::CountPoints() {
  some_count_ = true;
  threads_[static_cast<size_t>(current_)]->counts = true;
}

void Engine::Fail(const std::string& what) {
  const Quiet quiet;
  if (failure_.empty()) failure_ = what;
}

std::string Engine::Describe() const {
  std::string text;
  for (const auto& thread : threads_) {
    absl::StrAppend(&text, "  ", thread->name, ": ",
                    thread->done ? "has ended" : explore::Describe(thread->next), "\n");
  }
  absl::StrAppend(&text, "the last steps:\n");
  for (size_t i = 0; i < past_.size(); ++i) {
    const Past& past = past_[past_.size() < kPastSteps ? i : (steps_ + i) % kPastSteps];
    absl::StrAppend(&text, "  ", threads_[static_cast<size_t>(past.thread)]->name, ": ",
                    explore::Describe(past.op), "\n");
  }
  return text;
}

}  // namespace mp::explore
