// One random program in a World of its own, from drawing it to looking for what it has left behind:
// a function of its seed, as far as threads allow.
//
//   const Trial trial = RunTrial(HostTargets()[0], /*seed=*/17, Profile::kBroad);
//   EXPECT_EQ(trial.failure, "");
//
// A trial that does not end within two minutes ends the process, and says which it was.
#ifndef MP_TESTS_RANDOM_TRIAL_H_
#define MP_TESTS_RANDOM_TRIAL_H_

#include <cstdint>
#include <string>

#include "tests/random/target.h"

namespace mp::test {

enum class Profile {
  kBroad,  // a program or two, of tensors of all sizes
  kLong,   // many rounds of small operations
};

struct Trial {
  std::string failure;  // what was not as it must be, and the program; empty for nothing
  int64_t programs = 0;
  int64_t operations =
      0;               // a batch of four is four; those of programs that go wrong are not counted
  int64_t moving = 0;  // of them: among at least two ranks, with data
  bool fault = false;  // something was made to go wrong
};

Trial RunTrial(const Target& target, uint64_t seed, Profile profile);

}  // namespace mp::test

#endif  // MP_TESTS_RANDOM_TRIAL_H_
