#include "mp/base/cycle_clock.h"

#include <algorithm>

#include "mp/base/sync.h"

namespace mp {
namespace {

double CyclesFrom(uint64_t first, uint64_t cycles) {
  return static_cast<double>(std::max<int64_t>(0, static_cast<int64_t>(cycles - first)));
}

}  // namespace

CycleClock::CycleClock() : first_cycles_(sync::Cycles()), first_(sync::Clock::Steady().Now()) {}

CycleClock::Reading CycleClock::Now() const {
  const absl::Duration elapsed = sync::Clock::Steady().Now() - first_;
  return Reading(first_cycles_, CyclesFrom(first_cycles_, sync::Cycles()), elapsed);
}

// By the rate between the two moments, so that neither end can be wrong.
absl::Duration CycleClock::Reading::Since(uint64_t cycles) const {
  const double part = CyclesFrom(first_cycles_, cycles) / std::max(1.0, cycles_);
  return elapsed_ * std::min(1.0, part);
}

}  // namespace mp
