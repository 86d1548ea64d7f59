// What readings of sync::Cycles are in time.
//
//   mp::CycleClock clock;
//   const uint64_t then = mp::sync::Cycles();  // often
//   absl::Duration at = clock.Now().Since(then);  // seldom: reads the machine's clock
//
// Threads. Any number at once.
#ifndef MP_BASE_CYCLE_CLOCK_H_
#define MP_BASE_CYCLE_CLOCK_H_

#include <cstdint>

#include "absl/time/time.h"

namespace mp {

class CycleClock {
 public:
  // What the cycles until a moment were in time.
  class Reading {
   public:
    // From the making of the clock until this moment.
    absl::Duration elapsed() const { return elapsed_; }
    // Until the moment of `cycles`, which was before this one; 0 for what was before the clock.
    absl::Duration Since(uint64_t cycles) const;

   private:
    friend class CycleClock;
    Reading(uint64_t first_cycles, double cycles, absl::Duration elapsed)
        : first_cycles_(first_cycles), cycles_(cycles), elapsed_(elapsed) {}
    uint64_t first_cycles_;
    double cycles_;  // in all
    absl::Duration elapsed_;
  };

  CycleClock();
  Reading Now() const;

 private:
  const uint64_t first_cycles_;
  const absl::Duration first_;
};

}  // namespace mp

#endif  // MP_BASE_CYCLE_CLOCK_H_
