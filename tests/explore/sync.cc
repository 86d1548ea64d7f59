#include "tests/explore/sync.h"

#include <cstdio>
#include <cstdlib>

namespace mp::sync {
namespace {

using explore::Engine;
using explore::OpKind;

// Threads and waits exist in runs alone.
Engine& Running(const char* what) {
  Engine* const engine = Engine::Current();
  if (engine == nullptr) {
    std::fprintf(stderr, "explore: %s outside of a run\n", what);
    std::abort();
  }
  return *engine;
}

class EngineClock : public Clock {
 public:
  absl::Duration Now() override { return Running("a clock").Now(); }
  bool Wait(Atomic<uint32_t>& word, uint32_t seen, absl::Duration timeout) override {
    const explore::Quiet quiet;
    Engine& engine = Running("a wait");
    const Site site = Site::current();
    engine.Point(OpKind::kWait, &word.cell(), site);
    if (word.cell().Look() != seen) return true;
    return engine.Sleep(&word.cell(), timeout, site);
  }
};

}  // namespace

void Yield(Site site) {
  const explore::Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine != nullptr) engine->Point(OpKind::kYield, nullptr, site);
}

uint64_t Cycles() {
  Engine* const engine = Engine::Current();
  return engine == nullptr ? 0 : engine->Cycles();
}

void Wake(Atomic<uint32_t>& word, int count, Site site) {
  const explore::Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine == nullptr) return;
  engine->Point(OpKind::kWake, &word.cell(), site);
  engine->WakeSleepers(&word.cell(), count);
}

void Mutex::Lock(Site site) {
  const explore::Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine == nullptr) return;
  engine->Point(OpKind::kLock, &state_, site);
  state_.holder = engine->self();
  engine->clock().Join(state_.released);
}

bool Mutex::TryLock(Site site) {
  const explore::Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine == nullptr) return true;
  engine->Point(OpKind::kTryLock, &state_, site);
  if (state_.holder >= 0) return false;
  state_.holder = engine->self();
  engine->clock().Join(state_.released);
  return true;
}

void Mutex::Unlock(Site site) {
  const explore::Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine == nullptr) return;
  engine->Point(OpKind::kUnlock, &state_, site);
  if (state_.holder != engine->self()) engine->Fail("a lock is let go by who does not hold it");
  state_.holder = -1;
  state_.released = engine->clock();
}

Clock& Clock::Steady() {
  static EngineClock clock;
  return clock;
}

absl::StatusOr<Thread> Thread::Start(std::string name, std::function<void()> body) {
  Thread thread;
  thread.id_ = Running("a thread").Start(std::move(name), std::move(body));
  return thread;
}

Thread& Thread::operator=(Thread&& other) {
  Join();
  id_ = std::exchange(other.id_, -1);
  return *this;
}

void Thread::Join() {
  const explore::Quiet quiet;
  if (id_ < 0) return;
  Running("a join").Join(id_, Site::current());
  id_ = -1;
}

uint64_t ThisThread() {
  Engine* const engine = Engine::Current();
  return engine == nullptr ? 1000 : static_cast<uint64_t>(engine->self()) + 1;
}

uint32_t ThisCore() { return static_cast<uint32_t>(ThisThread()); }

void*& ThreadPointer() {
  static void* outside = nullptr;
  Engine* const engine = Engine::Current();
  return engine == nullptr ? outside : engine->pointer();
}

int CoreCount() { return 2; }

void LimitCores(int) {}

}  // namespace mp::sync
