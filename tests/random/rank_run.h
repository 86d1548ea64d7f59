// One rank's part in a program: its views of the arenas, what its stream fills in and compares, and
// the calls that it makes.
//
//   RankRun mine(target, program, arenas, regions, rank_id);
//   absl::Status told = mine.Go(rank, /*rounds=*/3, odd_one);   // on the rank's thread
//   mine.seen(step)                                             // when the World's streams are
//   empty
#ifndef MP_TESTS_RANDOM_RANK_RUN_H_
#define MP_TESTS_RANDOM_RANK_RUN_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mp/base/sync.h"
#include "mp/world.h"
#include "tests/random/program.h"
#include "tests/random/target.h"

namespace mp::test {

// What the last comparison of a kCheck found.
enum class Seen { kNothing, kRight, kBefore, kEither, kGarbage };

// How the odd rank of a program and its peers know of each other outside of mp.
class OddOne {
 public:
  // A rank has been told of an error.
  void Tell() {
    told_.store(1);
    told_.notify_all();
  }
  void AwaitTold() const { told_.wait(0); }

 private:
  std::atomic<int> told_{0};
};

class RankRun {
 public:
  RankRun(const Target& target, const Program& program, const std::vector<uint8_t*>& arenas,
          std::vector<Region> regions, int id);
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  // All rounds, and then a wait for the rank's stream.
  absl::Status Go(Rank& rank, int rounds, OddOne& odd_one);

  // The same in pieces, for a thread that drives several ranks: steps 0 .. steps() - 1 of a round.
  absl::Status Begin(Rank& rank);
  absl::Status BeginRound();
  absl::Status Take(int step);
  int steps() const { return static_cast<int>(program_.steps.size()); }

  Seen seen(int step) const { return seen_[At(step)]; }
  // The first comparison that failed in a program that is right, in words.
  const std::string& difference() const { return difference_; }

 private:
  // What the rank's stream does for one step.
  struct Compute : Body {
    RankRun* owner = nullptr;
    int step = -1;  // -1: a round begins
    void Run() const override { owner->RunOnStream(step); }
  };
  // One call with this rank's tensors.
  struct Bound {
    TensorView input, output;
  };

  TensorView ViewOf(const Place& place, DType dtype) const;
  TensorView OddView(const Place& place) const;
  void Bind(int step);
  RankRegion& region(int group) { return *doors_[At(group)]; }
  int member(int group) const { return positions_[At(group)]; }

  absl::Status TakeRecorded();
  absl::Status TakeCalls(const Step& step, const std::vector<Call>& calls,
                         const std::vector<Bound>& bound, int at);
  absl::Status TakeWait(const Step& step);
  absl::Status TakeWrong(const Step& step);
  absl::Status TakeCopy(const Step& step);
  // Nothing where the rank goes on.
  std::optional<absl::Status> GoWrong(OddOne& odd_one);
  absl::Status CallSomethingElse();

  void RunOnStream(int step);
  void Compare(int at, const Step& step, const Array& array, size_t m);

  const Target& target_;
  const Program& program_;
  const std::vector<uint8_t*>& arenas_;
  std::vector<Region> regions_;
  const int id_;
  std::vector<int> positions_;                    // by group; -1: no member
  std::vector<std::optional<RankRegion>> doors_;  // by group
  std::vector<std::vector<Bound>> bound_;         // by step
  std::vector<Compute> compute_;                  // by step
  Compute next_round_;
  std::vector<Work> works_;  // by step
  std::optional<Graph> graph_;
  Stream* stream_ = nullptr;
  bool may_wait_ = true;  // on its thread
  int round_ = 0;

  // Of the stream:
  int variant_ = -1;
  int rounds_seen_ = 0;
  std::vector<Seen> seen_;
  std::string difference_;
};

}  // namespace mp::test

#endif  // MP_TESTS_RANDOM_RANK_RUN_H_
