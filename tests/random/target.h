// What random programs run on: a backend in one of the forms in which it can be had.
//
//   for (const Target& target : HostTargets()) ...
#ifndef MP_TESTS_RANDOM_TARGET_H_
#define MP_TESTS_RANDOM_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/backend.h"
#include "mp/kernel.h"

namespace mp::test {

// Compute: what a stream comes to.  It outlives the work.
class Body {
 public:
  virtual ~Body() = default;
  // May use the memory of devices.
  virtual void Run() const = 0;
};

// What a backend stands on while a program runs.
class Ground {
 public:
  virtual ~Ground() = default;
  virtual absl::StatusOr<std::shared_ptr<Backend>> NewBackend(int devices) = 0;
  // Empty where nothing is left behind, when all that was made is gone.
  virtual std::string Verdict() { return ""; }
};

struct Target {
  std::string name;
  std::unique_ptr<Ground> (*new_ground)(uint64_t seed);
  Kernel (*kernel)(const Body* body);
  // Move bytes between the host's memory and a device's, at once.
  void (*copy)(void* to, const void* from, size_t bytes);

  // One thread may drive all ranks, and the run is a function of the seed.
  bool stepped = false;
  bool folds_in_rank_order = true;
  bool reduces_at_any_byte = true;
  // How much of it is done in about one and the same time: calls and batches of a program.
  int steps = 24;
  // Times three, in a long program.
  int rounds = 300;
  int most_ranks = 6;
  int trials = 400;  // in a test
};

// Those of a test program: it links one definition.
std::vector<Target> TheseTargets();

// The pool, inline and seeded; tests/random/host_targets.cc.
std::vector<Target> HostTargets();
// NCCL and direct, NCCL alone, all ranks on one GPU, and on two; tests/cuda/random_targets.cc.
std::vector<Target> FakeTargets();

}  // namespace mp::test

#endif  // MP_TESTS_RANDOM_TARGET_H_
