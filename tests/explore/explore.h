// Runs a body again and again, each time with another schedule of its threads.
//
//   const Outcome outcome = Explore({.points = 12}, [] {
//     sync::Thread other = sync::Thread::Start(...).value();
//     ...
//     Expect(sum == 3, "the sum");
//   });
//   EXPECT_EQ(outcome.failure, "");
//
// A failure has a token: MP_EXPLORE_REPLAY=<token> in the environment makes every Explore of the
// program do that run alone and print each step, so name the test with --test_filter.
// MP_EXPLORE_SECONDS=<n> makes each Explore go on for that long, with further seeds.
#ifndef MP_TESTS_EXPLORE_EXPLORE_H_
#define MP_TESTS_EXPLORE_EXPLORE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "tests/explore/strategy.h"
#include "tests/explore/sync.h"

namespace mp::explore {

struct Options {
  // Every schedule of the first so many points of each thread, from OpenWindow on; -1: of all
  // points, from the beginning; 0: random runs instead.
  int points = 0;
  ExhaustiveOptions exhaustive;
  // At most so many.
  uint64_t runs = 1000;
  uint64_t first_seed = 1;
  // The run to do, alone.
  std::string replay;
};

struct Outcome {
  uint64_t runs = 0;
  uint64_t redundant = 0;  // of them: equivalent to others
  uint64_t steps = 0;      // of all runs
  bool complete = false;   // there are no more schedules
  std::string failure;     // of the last run; empty for none
  std::string token;       // of that run
};

// Until a run fails.
Outcome Explore(const Options& options, const std::function<void()>& body);
// One line on what was done.
std::string Describe(const Outcome& outcome);

// Within a run: it fails, and goes on.
void Expect(bool holds, const std::string& what);

// Within a run: the points count from now on.
void OpenWindow();

// Within a run: `count` threads wait for each other, and then their points count, and no others'.
class Gate {
 public:
  explicit Gate(int count) : left_(count) {}
  void Pass();

 private:
  sync::Atomic<int> left_;
};

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_EXPLORE_H_
