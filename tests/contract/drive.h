// Worlds for tests, and the ways in which the calls of their ranks can come.
//
//   std::unique_ptr<World> world = NewWorld(3);
//   for (Door door : RankDoors()) {
//     Call call(*world, {.kind = OpKind::kAllGather});
//     EXPECT_THAT(Drive(*world, door, [&](Rank& rank) { return call.Post(rank.region()); }),
//                 Each(IsOk()));
//     call.ExpectDone();
//   }
#ifndef MP_TESTS_CONTRACT_DRIVE_H_
#define MP_TESTS_CONTRACT_DRIVE_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "mp/base/sync.h"
#include "mp/world.h"
#include "tests/contract/backend_under_test.h"
#include "tests/contract/call.h"
#include "tests/support/status_matchers.h"

// Ends a test that asks for what the backend does not promise.
#define SKIP_UNLESS(property) \
  if (!::mp::test::Under().property) return

namespace mp::test {

// A backend as applications run it.
std::shared_ptr<Backend> NewBackend(int devices);

// A World with a rank on each of that many devices of a Backend of its own.  A rank that never
// comes is an error after a minute, so that no broken test hangs.
std::unique_ptr<World> NewWorld(int ranks, WorldOptions options = {});

enum class Door {
  kRun,        // the World's own threads
  kAttach,     // a thread of the application for each rank
  kOneThread,  // one thread of the application for all ranks, one after the other
};
std::vector<Door> RankDoors();

// Calls `post` for every rank and waits for the ranks' streams.  Element r is what rank r was
// told: by its call, else by its wait.
std::vector<absl::Status> Drive(World& world, Door door,
                                const std::function<absl::Status(Rank&)>& post);
// Through World::Run.
std::vector<absl::Status> Drive(World& world, const std::function<absl::Status(Rank&)>& post);

// A World whose ranks are all driven by the calling thread, on a backend whose schedule and time
// are a function of the seed: every step of a test happens exactly when the test says so.
class SteppedWorld {
 public:
  explicit SteppedWorld(int ranks, uint64_t seed = 1, WorldOptions options = {});

  World& world() { return *world_; }
  Rank& rank(int id) { return **ranks_[At(id)]; }
  RankRegion& region(int id) { return rank(id).region(); }
  absl::Status Synchronize(int id) { return rank(id).stream().Synchronize(); }
  // What every rank is told by a wait for its stream.
  std::vector<absl::Status> SynchronizeAll();
  // Another thread drives the rank from now on, and does nothing with it: it might still come.
  void Away(int id);
  // The thread stops driving the rank.
  void Leave(int id) { ranks_[At(id)].reset(); }
  sync::FakeClock& clock() { return clock_; }

 private:
  sync::FakeClock clock_;
  std::unique_ptr<World> world_;
  std::vector<std::optional<Attachment>> ranks_;
};

// Threads of the application: thread i runs body(i).  Returns when all have ended.
void OnThreads(int count, const std::function<void(int)>& body);

// A number that threads of a test tell each other, and wait for.
class Progress {
 public:
  void Add() {
    value_.fetch_add(1);
    value_.notify_all();
  }
  int value() const { return value_.load(); }
  // Ends all waits, those to come too: what they wait for has gone wrong.
  void Release() {
    value_.store(1 << 30);
    value_.notify_all();
  }
  void AwaitAtLeast(int n) const {
    for (int seen = value_.load(); seen < n; seen = value_.load()) value_.wait(seen);
  }

 private:
  std::atomic<int> value_{0};
};

// One operation of every kind and form, small, for any number of ranks.
std::vector<CallSpec> OneOfEach();

// A name for SCOPED_TRACE.
const char* Name(Door door);

}  // namespace mp::test

#endif  // MP_TESTS_CONTRACT_DRIVE_H_
