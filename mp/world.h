// A set of ranks in this process, each a device and the thread that drives it.
//
//   MP_ASSIGN_OR_RETURN(auto backend, mp::host::NewBackend({.devices = 4}));
//   MP_ASSIGN_OR_RETURN(auto world, mp::World::Create(backend, {}));
//   absl::Status status = world->Run([&](mp::Rank& rank) -> absl::Status { ... });
//
// Run calls the function once for every rank, each on the rank's own thread, and returns when all
// have returned and all their streams are empty.  A server that has a thread per device attaches
// those instead:  MP_ASSIGN_OR_RETURN(mp::Attachment me, world->Attach(3));  me->region()...
//
// Errors.    The first rank that fails ends the Run: the others are released from whatever they
//            wait for, with that rank's error as the cause, and so is whoever calls a Region later
//            in that Run.  Exceptions are caught and become
//            UserException.  A World stays usable after a failed Run; a failed Region does not.
// Threads.   Any; one Run at a time.  Not from inside a Run.  In a child that fork() has made every
//            call on what the parent made is a UsageError, and destructors do nothing.
// Ownership. Regions, Ranks and streams live as long as the World.
#ifndef MP_WORLD_H_
#define MP_WORLD_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "mp/backend.h"
#include "mp/flight.h"
#include "mp/health.h"
#include "mp/mesh.h"
#include "mp/region.h"

namespace mp {

class Trace;
class World;
class WorldState;
struct RankState;

struct WorldOptions {
  // The device of each rank; empty for one rank on each device of the Backend.
  std::vector<int> devices;
  // The ranks' places on the axes of a mesh, whose product must be the number of ranks; by default
  // all of them are on the tensor axis.
  std::optional<Mesh> mesh;
  // Whether the World has a thread for each rank.  Without, there is no Run, only Attach and the
  // one-call door.
  bool rank_threads = true;
  // How long a rank waits for an operation that others have not posted, before the Region fails
  // with AbsentShard.  Infinite is allowed.
  absl::Duration absence_timeout = absl::Minutes(10);
  // When to tell the log that it has been waiting.
  absl::Duration absence_warning = absl::Seconds(10);
  // How long a stream of a rank on a GPU may stand still with operations on it while a thread
  // waits, for whatever stream, before all that the World has under way is aborted (DeviceError).
  // Infinite is allowed.  A host device has none: its kernels are functions of the application,
  // which nobody can end.
  absl::Duration device_deadline = absl::Minutes(10);
  // A rank may be this many operations ahead of the slowest before its next call waits; with 1 a
  // call returns when all ranks have agreed.
  int max_lead = 256;
  // How long Close waits for what is still running.
  absl::Duration close_timeout = absl::Seconds(5);
  // Gets one line for each warning; nothing is written anywhere without it.  Any thread.  It may
  // ask mp; what could wait is a UsageError there.
  std::function<void(absl::string_view)> log;
  // Where all its streams record what they run (mp/trace.h); null for nowhere, which costs nothing.
  // Several Worlds may share one.
  std::shared_ptr<Trace> trace;
  // What the trace calls it; by default "World 1" and so on.
  std::string name;
};

// One rank as its own thread sees it.
class Rank {
 public:
  int id() const;
  int world_size() const;
  Device& device();
  // The compute stream.
  Stream& stream();
  // Another stream of this rank, the World's own for as long as it lives.
  absl::StatusOr<Stream*> NewStream();
  // The Region over all ranks.
  RankRegion& region();
  // The Region over the ranks that share this axis of the mesh with this one.
  RankRegion& region(Axis axis);
  // A Region over `ranks`, made by every one of them, this one included, in the same order of
  // calls.
  absl::StatusOr<RankRegion> NewRegion(const std::vector<int>& ranks,
                                       const RegionOptions& options = {});
  World& world() { return *world_; }

 private:
  friend class WorldState;
  friend class Region;
  friend class Graph;
  friend class Attachment;
  Rank(World* world, WorldState* inside, RankState* state, RankRegion region)
      : world_(world), inside_(inside), state_(state), region_(std::move(region)) {}
  World* world_;
  WorldState* inside_;
  RankState* state_;
  RankRegion region_;
  std::vector<RankRegion> axis_regions_;  // in the order of kAxes
};

// A thread of the application that drives a rank, until it goes, which is before the World goes.
class Attachment {
 public:
  Attachment(Attachment&& other) noexcept : rank_(std::exchange(other.rank_, nullptr)) {}
  Attachment& operator=(Attachment&& other) noexcept {
    std::swap(rank_, other.rank_);
    return *this;
  }
  // Peers that wait for this rank get AbsentShard.  Who calls later waits for another thread to
  // attach.
  ~Attachment();
  Rank& operator*() const { return *rank_; }
  Rank* operator->() const { return rank_; }

 private:
  friend class World;
  explicit Attachment(Rank* rank) : rank_(rank) {}
  Rank* rank_;
};

class World {
 public:
  // InvalidArgument: no device, one that the Backend does not have, an option out of range.
  // Unsupported: a trace on a Backend that does not record.
  // DeviceError: no memory or no thread; nothing is left behind and Create may be called again.
  // DeviceLost: restart the process.
  static absl::StatusOr<std::unique_ptr<World>> Create(std::shared_ptr<Backend> backend,
                                                       const WorldOptions& options = {});
  // Closes.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int world_size() const;
  const Mesh& mesh() const;
  Backend& backend();
  Device& device(int rank);
  // The compute stream of a rank.
  Stream& stream(int rank);

  absl::Status Run(const std::function<absl::Status(Rank&)>& body);

  // Makes the calling thread the one that drives `rank`.  UsageError: it is driven already.
  absl::StatusOr<Attachment> Attach(int rank);

  // The Region over all ranks.
  Region& region();
  // The Regions of an axis of the mesh, one for each of its groups, in the order of Mesh::Groups.
  const std::vector<Region>& regions(Axis axis) const;
  // A Region over `ranks`, in that order.  InvalidArgument: empty, unknown or repeated ranks.
  absl::StatusOr<Region> NewRegion(const std::vector<int>& ranks,
                                   const RegionOptions& options = {});

  // Waits for all streams of all ranks, and tells their first error.
  absl::Status Synchronize(absl::Duration timeout = absl::InfiniteDuration());

  // What every rank has posted last, by rank and in the order of its posts (mp/flight.h): any
  // thread, at any time.
  std::vector<RecentOperation> Recent() const;

  // How it stands (mp/health.h): any thread, at any time.
  WorldHealth Health() const;

  // Ends all Regions with Closed and waits for what runs, at most close_timeout, then
  // DeadlineExceeded; what stands still on a GPU is aborted then.  A second Close does nothing.
  // UsageError: from a rank's own thread.
  absl::Status Close();

 private:
  friend class Rank;
  friend class Attachment;
  explicit World(std::unique_ptr<WorldState> state);
  std::unique_ptr<WorldState> state_;
};

}  // namespace mp

#endif  // MP_WORLD_H_
