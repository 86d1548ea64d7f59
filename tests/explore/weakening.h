// Memory orders as they act, and one of them weakened at one place in the code, to see whether a
// test notices.
//
//   NoteOrders(true); explore; for (const Weakening& w : PossibleWeakenings()) { Weaken(w); ... }
#ifndef MP_TESTS_EXPLORE_WEAKENING_H_
#define MP_TESTS_EXPLORE_WEAKENING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/explore/point.h"

namespace mp::explore {

enum class Order : uint8_t;

struct Effect {
  bool acquires = false;
  bool releases = false;
  bool sequential = false;
};

enum class Access : uint8_t { kLoad, kStore, kUpdate, kFailure };

// What the place in the code does without.
enum class Part : uint8_t { kAcquire, kRelease, kSequential };

struct Weakening {
  std::string file;
  uint32_t line = 0, column = 0;
  Access access = Access::kLoad;
  Part part = Part::kAcquire;
};
// "mp/group.cc:436:20 update without release"
std::string Describe(const Weakening& weakening);

Effect EffectOf(Order order, Access access, const Site& site);

// From now on; null for nothing.  It outlives that.
void Weaken(const Weakening* weakening);
// Whether the place was come to since.
bool WeakenedPlaceWasMet();
// From now on what is met is remembered, or not.
void NoteOrders(bool on);
// Every part of every order met below `prefix`, by place.
std::vector<Weakening> PossibleWeakenings(const std::string& prefix);

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_WEAKENING_H_
