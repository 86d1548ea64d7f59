// The memory behind one atomic: the stores that a thread might still see, and what each of them
// tells of the thread that made it.
//
// All stores to a cell are in one order, that of the run.  A load returns any of the last few,
// as the strategy says, but none older than one that happened before the load, or that a load
// which happened before has returned; a sequentially consistent one none older than the last
// sequentially consistent operation on the cell.  A read-modify-write takes the last store.
// A store with release order carries what its thread knew, a load with acquire order takes it on,
// and read-modify-writes between the two hand it on.
#ifndef MP_TESTS_EXPLORE_CELL_H_
#define MP_TESTS_EXPLORE_CELL_H_

#include <array>
#include <cstdint>
#include <vector>

#include "tests/explore/engine.h"
#include "tests/explore/point.h"

namespace mp::explore {

enum class Order : uint8_t { kRelaxed, kAcquire, kRelease, kAcqRel, kSeqCst };

class Cell {
 public:
  explicit Cell(uint64_t value) : value_(value) {}
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  uint64_t Load(Order order, const Site& site) const;
  void Store(uint64_t value, Order order, const Site& site);
  // Stores next(old, operand) and returns old.
  uint64_t Update(uint64_t (*next)(uint64_t old, uint64_t operand), uint64_t operand, Order order,
                  const Site& site);
  bool CompareExchange(uint64_t& expected, uint64_t desired, Order success, Order failure,
                       bool may_fail, const Site& site);
  // The last store, as the kernel finds it for a thread that is about to sleep: no older one is
  // seen afterwards, and nothing is taken on.
  uint64_t Look() const;

 private:
  struct Entry {
    uint64_t value = 0;
    bool sequential = false;  // stored or loaded so
    VectorClock released;     // what an acquire of it gets
    VectorClock seen;         // by thread: when it knew of this first; 0 for never
  };

  std::vector<Entry>& History(const Engine& engine) const;
  static bool Knows(const VectorClock& clock, const Entry& entry);
  void Replace(uint64_t value, Order order, const Site& site);

  uint64_t value_;  // the last one
  mutable uint64_t run_ = 0;
  mutable std::vector<Entry> history_;  // of that run; the last of it is value_
};

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_CELL_H_
