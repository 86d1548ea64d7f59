#include "tests/explore/cell.h"

#include <algorithm>

#include "tests/explore/weakening.h"

namespace mp::explore {
namespace {

// How many stores a load can lag behind.
constexpr size_t kDepth = 4;

void NoteSeen(VectorClock& seen, const Engine& engine, const VectorClock& clock) {
  uint32_t& at = seen[engine.self()];
  if (at == 0) at = clock[engine.self()];
}

}  // namespace

std::vector<Cell::Entry>& Cell::History(const Engine& engine) const {
  if (run_ != engine.run() || history_.empty()) {
    run_ = engine.run();
    history_.assign(1, Entry{.value = value_});
  }
  return history_;
}

bool Cell::Knows(const VectorClock& clock, const Entry& entry) {
  for (int thread = 0; thread < kMaxThreads; ++thread) {
    if (entry.seen[thread] != 0 && entry.seen[thread] <= clock[thread]) return true;
  }
  return false;
}

uint64_t Cell::Load(Order order, const Site& site) const {
  const Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine == nullptr) return value_;
  engine->Point(OpKind::kLoad, this, site);
  const Effect effect = EffectOf(order, Access::kLoad, site);
  std::vector<Entry>& history = History(*engine);
  VectorClock& clock = engine->clock();
  size_t oldest = history.size() - 1;
  while (oldest > 0 && !(effect.sequential && history[oldest].sequential) &&
         !Knows(clock, history[oldest])) {
    --oldest;
  }
  const auto choices = static_cast<int>(history.size() - oldest);
  const int behind = choices > 1 ? engine->Choose(choices, Choice::kStale) : 0;
  Entry& entry = history[history.size() - 1 - static_cast<size_t>(behind)];
  NoteSeen(entry.seen, *engine, clock);
  entry.sequential = entry.sequential || effect.sequential;
  if (effect.acquires) clock.Join(entry.released);
  return entry.value;
}

uint64_t Cell::Look() const {
  const Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine != nullptr) NoteSeen(History(*engine).back().seen, *engine, engine->clock());
  return value_;
}

void Cell::Store(uint64_t value, Order order, const Site& site) {
  const Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine == nullptr) {
    value_ = value;
    return;
  }
  engine->Point(OpKind::kStore, this, site);
  const Effect effect = EffectOf(order, Access::kStore, site);
  std::vector<Entry>& history = History(*engine);
  Entry entry{.value = value, .sequential = effect.sequential};
  if (effect.releases) entry.released = engine->clock();
  NoteSeen(entry.seen, *engine, engine->clock());
  if (history.size() == kDepth) history.erase(history.begin());
  history.push_back(entry);
  value_ = value;
}

uint64_t Cell::Update(uint64_t (*next)(uint64_t, uint64_t), uint64_t operand, Order order,
                      const Site& site) {
  const Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine != nullptr) engine->Point(OpKind::kUpdate, this, site);
  const uint64_t old = value_;
  Replace(next(old, operand), order, site);
  return old;
}

// After the Point of a read-modify-write.
void Cell::Replace(uint64_t value, Order order, const Site& site) {
  Engine* const engine = Engine::Current();
  if (engine == nullptr) {
    value_ = value;
    return;
  }
  const Effect effect = EffectOf(order, Access::kUpdate, site);
  std::vector<Entry>& history = History(*engine);
  VectorClock& clock = engine->clock();
  NoteSeen(history.back().seen, *engine, clock);
  Entry entry{.value = value, .sequential = effect.sequential};
  entry.released = history.back().released;  // a release sequence goes on
  if (effect.acquires) clock.Join(history.back().released);
  if (effect.releases) entry.released.Join(clock);
  NoteSeen(entry.seen, *engine, clock);
  if (history.size() == kDepth) history.erase(history.begin());
  history.push_back(entry);
  value_ = value;
}

bool Cell::CompareExchange(uint64_t& expected, uint64_t desired, Order success, Order failure,
                           bool may_fail, const Site& site) {
  const Quiet quiet;
  Engine* const engine = Engine::Current();
  if (engine != nullptr) engine->Point(OpKind::kUpdate, this, site);
  const bool fails = value_ != expected ||
                     (may_fail && engine != nullptr && engine->Choose(2, Choice::kEarly) != 0);
  if (!fails) {
    Replace(desired, success, site);
    return true;
  }
  expected = value_;
  if (engine == nullptr) return false;
  const Effect effect = EffectOf(failure, Access::kFailure, site);
  Entry& entry = History(*engine).back();
  NoteSeen(entry.seen, *engine, engine->clock());
  entry.sequential = entry.sequential || effect.sequential;
  if (effect.acquires) engine->clock().Join(entry.released);
  return false;
}

}  // namespace mp::explore
