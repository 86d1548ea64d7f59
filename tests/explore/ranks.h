// A World on the host backend inside a run, and operations whose results are held, bit by bit,
// against what one thread computes in order.
//
//   Ranks ranks({.ranks = 2});
//   AllReduceCall sum(2, /*elements=*/3, /*seed=*/1);
//   ranks.Drive([&](Rank& rank) -> absl::Status {
//     MP_RETURN_IF_ERROR(sum.Post(rank.region()));
//     return rank.stream().Synchronize();
//   });
//   ranks.ExpectAllOk();
//   sum.ExpectDone();
#ifndef MP_TESTS_EXPLORE_RANKS_H_
#define MP_TESTS_EXPLORE_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mp/base/status.h"
#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/explore/explore.h"
#include "tests/support/numbers.h"

namespace mp::explore {

struct Setup {
  int ranks = 2;
  host::Execution execution = host::Execution::kInline;
  WorldOptions world;
};

class Ranks {
 public:
  explicit Ranks(const Setup& setup);

  World& world() { return *world_; }
  // A thread for each rank attaches to it and calls `body`, and each of `beside` has one too; from
  // when all are there, the points count.  Returns when all have ended.
  void Drive(const std::function<absl::Status(Rank&)>& body,
             const std::vector<std::function<void()>>& beside = {});
  // What each rank's body has returned.
  const std::vector<absl::Status>& statuses() const { return statuses_; }
  void ExpectAllOk() const;
  void ExpectAll(ErrorKind kind) const;
  // No deadline has come in this World's life, and nobody has slept until one.
  void ExpectNoTimeHasPassed() const;

 private:
  const absl::Duration begin_ = sync::Clock::Steady().Now();
  const int size_;
  std::unique_ptr<World> world_;
  std::vector<absl::Status> statuses_;
};

// One operation with every rank's tensors: outputs poisoned, expected results computed beforehand.
class Call {
 public:
  virtual ~Call() = default;
  virtual absl::Status Post(RankRegion& region) = 0;
  virtual absl::StatusOr<Work> Start(RankRegion& region) = 0;
  virtual absl::Status PostAll(Region& region) = 0;
  // Every output is right, or untouched: `done` for all ranks.
  void ExpectDone() const { Expect(expected_); }
  void ExpectUntouched() const { Expect(before_); }
  // Whichever it is, it is the same on all ranks.
  void ExpectDoneOrUntouched() const;

 protected:
  TensorView View(test::Bytes& bytes, const Shape& shape) const;
  void Expect(const std::vector<test::Bytes>& expected) const;
  // Of outputs_ as they are now.
  void Keep() { before_ = outputs_; }

  std::vector<test::Bytes> inputs_, outputs_, before_, expected_;  // by rank; float32
};

std::unique_ptr<Call> NewAllReduce(int ranks, int64_t elements, uint64_t seed, bool in_place);
// Two rows, shards of 1, 2, ... columns.
std::unique_ptr<Call> NewGather(int ranks, int root, uint64_t seed);
std::unique_ptr<Call> NewAllGather(int ranks, uint64_t seed);

}  // namespace mp::explore

#endif  // MP_TESTS_EXPLORE_RANKS_H_
