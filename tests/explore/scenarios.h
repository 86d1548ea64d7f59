// Programs of the ranks of one World, each a body of a run: what they must end in is the same for
// every schedule.
#ifndef MP_TESTS_EXPLORE_SCENARIOS_H_
#define MP_TESTS_EXPLORE_SCENARIOS_H_

#include <vector>

#include "tests/explore/ranks.h"

namespace mp::explore {

struct Scenario {
  const char* name;
  void (*run)(const Setup& setup);
};

const std::vector<Scenario>& Scenarios();

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_SCENARIOS_H_
