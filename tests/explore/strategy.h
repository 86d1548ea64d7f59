// Who goes on at each point of a run, and what else could go either way.
//
//   std::unique_ptr<Strategy> strategy = NewRandom(1000, /*seed=*/1);
//   while (strategy->Begin()) { run; strategy->End(); }
//
// Every run is named by a token, from which NewReplay makes it again.
#ifndef MP_TESTS_EXPLORE_STRATEGY_H_
#define MP_TESTS_EXPLORE_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tests/explore/point.h"

namespace mp::explore {

// What a strategy sees of a run at a point; threads are bits.
struct Situation {
  uint32_t runnable = 0;
  uint32_t yielded = 0;     // could go on too, and would rather let others
  uint32_t counted = 0;     // whose points are to be explored
  int next_yielded = -1;    // whoever of `yielded` has waited longest
  const Op* ops = nullptr;  // by thread: what it would do
};

enum class Choice {
  kStale,  // how many stores a load lags behind
  kEarly,  // whether a wait ends for no reason
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // False where no run is left.
  virtual bool Begin() = 0;
  virtual int Pick(const Situation& situation) = 0;
  // Below `count`; 0 is what is usual.  `counted`: at a point that is to be explored.
  virtual int Choose(int count, Choice choice, bool counted) = 0;
  virtual void End() = 0;

  // Of the run that is on.
  virtual std::string Token() const = 0;
  // Whether the run that is on is equivalent to another one.
  virtual bool redundant() const { return false; }
  // After Begin has returned false: whether every schedule has been had.
  virtual bool complete() const { return false; }
};

// What happens where nobody explores.
int FixedPolicy(const Situation& situation);

struct ExhaustiveOptions {
  int stale = 1;  // loads that return an old value, in one run
  int early = 1;  // waits that end for no reason, in one run
  // Runs that differ only in the order of operations on different objects count as one.
  bool reduce = true;
};

// Every schedule of the points that count.
std::unique_ptr<Strategy> NewExhaustive(const ExhaustiveOptions& options);
// `runs` runs, by seed: threads with priorities that change now and then, in others a walk.
std::unique_ptr<Strategy> NewRandom(uint64_t runs, uint64_t first_seed);
// One run.
std::unique_ptr<Strategy> NewReplay(const std::string& token);

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_STRATEGY_H_
