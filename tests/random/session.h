// A World in which programs are run and everything that they leave is looked at.
//
//   Session session(target, {.ranks = 3, .seed = 17});
//   std::vector<std::string> failures = session.Run(program, /*rounds=*/3);
//
// A program that is right must give what Predict has found, to the last byte of every arena.  Of
// one in which something goes wrong: all ranks are told of one cause, an operation has run on all
// of them or on none, and nothing that came at or behind what was wrong has run.
#ifndef MP_TESTS_RANDOM_SESSION_H_
#define MP_TESTS_RANDOM_SESSION_H_

#include <climits>
#include <memory>
#include <string>
#include <vector>

#include "mp/world.h"
#include "tests/random/program.h"
#include "tests/random/rank_run.h"
#include "tests/random/target.h"

namespace mp::test {

struct SessionOptions {
  int ranks = 2;
  uint64_t seed = 1;
  // One thread drives all ranks, in an order that is a function of the seed.
  bool stepped = false;
  int max_lead = 256;
};

class Session {
 public:
  Session(const Target& target, const SessionOptions& options);

  // What is not as it must be, in words.  `rounds` is a multiple of the program's variants.
  std::vector<std::string> Run(const Program& program, int rounds);

  // Ends it.  Empty where nothing is left behind.
  std::string End();

 private:
  struct Running;
  // Of the operations of one group, by the step that calls them.
  struct Outcomes {
    int first_dropped = INT_MAX;
    int last_ran = -1;
  };

  void Load(const Program& program, Running& running);
  void RunOnThreads(const Program& program, int rounds, Running& running);
  void RunStepped(int rounds, Running& running);
  void CheckRight(const Program& program, Running& running);
  void CheckWrong(const Program& program, Running& running);
  void CheckTold(const Program& program, Running& running);
  void CheckOutcomes(const Program& program, Running& running);
  void CheckOutcome(const Program& program, int at, std::vector<Outcomes>& outcomes,
                    Running& running);

  const Target& target_;
  const SessionOptions options_;
  std::unique_ptr<Ground> ground_;
  std::unique_ptr<World> world_;
};

}  // namespace mp::test

#endif  // MP_TESTS_RANDOM_SESSION_H_
