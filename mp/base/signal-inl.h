// The part of mp/base/sync.h that is the same code where schedules are explored: written with the
// names of that header, which includes it.
#ifndef MP_BASE_SIGNAL_INL_H_
#define MP_BASE_SIGNAL_INL_H_

#include <cstdint>

#include "absl/time/time.h"

namespace mp::sync {

// A flag that one side raises and others wait for, any number of times.
//
//   waiter: uint32_t seen = signal.Prepare(); if (!ready()) signal.Sleep(clock, seen, timeout);
//   raiser: make ready() true; signal.Raise();
//
// Prepare must come before the test of ready(): then no raise is lost.
class Signal {
 public:
  uint32_t Prepare() {
    sleepers_.fetch_add(1, kSeqCst);
    return word_.load(kSeqCst);
  }
  // Ends what Prepare began, without a sleep.
  void Cancel() { sleepers_.fetch_sub(1, kRelaxed); }
  // False where the time ran out.
  bool Sleep(Clock& clock, uint32_t seen, absl::Duration timeout) {
    const bool raised = clock.Wait(word_, seen, timeout);
    Cancel();
    return raised;
  }
  // Costs one load where nobody waits.  What made ready() true must be a sequentially consistent
  // read-modify-write, or be followed by one.
  // Wakes `count` of those that sleep.
  void Raise(int count = 1 << 30) {
    if (sleepers_.load(kSeqCst) != 0) RaiseSlow(count);
  }

 private:
  [[gnu::cold]] void RaiseSlow(int count) {
    word_.fetch_add(1, kSeqCst);
    Wake(word_, count);
  }
  Atomic<uint32_t> word_{0};
  Atomic<uint32_t> sleepers_{0};
};

}  // namespace mp::sync

#endif  // MP_BASE_SIGNAL_INL_H_
