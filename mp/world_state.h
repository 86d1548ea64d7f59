// The inside of a World.  Internal.
//
// Locks: mutex_ before the Order's.  Rank threads wait on turn_ for the next Run.
#ifndef MP_WORLD_STATE_H_
#define MP_WORLD_STATE_H_

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "mp/backend.h"
#include "mp/base/sync.h"
#include "mp/flight.h"
#include "mp/group.h"
#include "mp/health.h"
#include "mp/rank_state.h"
#include "mp/region.h"
#include "mp/world.h"

namespace mp {

class WorldState final : public StallWatch {
 public:
  using Body = std::function<absl::Status(Rank&)>;

  WorldState(std::shared_ptr<Backend> backend, WorldOptions options)
      : backend_(std::move(backend)), options_(std::move(options)) {}
  ~WorldState() override;

  absl::Status Init(World& world);

  absl::Status Run(const Body& body);
  absl::StatusOr<Rank*> Attach(int rank);
  void Detach(int rank);
  absl::StatusOr<std::shared_ptr<Group>> NewGroup(const std::vector<int>& ranks,
                                                  const RegionOptions& options);
  // The Group that all of `ranks` ask for, each with its k-th call for these ranks.
  absl::StatusOr<std::shared_ptr<Group>> JoinGroup(int rank, const std::vector<int>& ranks,
                                                   const RegionOptions& options);
  absl::StatusOr<Stream*> NewStream(int rank);
  absl::Status Synchronize(absl::Duration timeout);
  absl::Status Close();
  std::vector<RecentOperation> Recent();
  WorldHealth Health();

  int size() const { return static_cast<int>(ranks_.size()); }
  Backend& backend() { return *backend_; }
  const Process& maker() const { return backend_->order().maker; }
  RankState& rank(int id) { return *ranks_[static_cast<size_t>(id)]; }
  Region& world_region() { return *world_region_; }
  const Mesh& mesh() const { return mesh_; }
  const std::vector<Region>& axis_regions(Axis axis) const {
    return axis_regions_[static_cast<size_t>(axis)];
  }
  bool stuck() const { return stuck_; }

 private:
  // A Group that not all of its ranks have asked for yet.
  struct Joining {
    std::shared_ptr<Group> group;
    size_t joined = 0;
  };

  using Groups = std::vector<std::shared_ptr<Group>>;

  absl::Status CheckOptions() const;
  absl::Status InitRanks();
  absl::Status InitRegions(World& world);
  void Log(const std::string& line) const;
  absl::Duration OnStall(Stream& stream, absl::Duration waited) override;
  void RankMain(int id);
  absl::Status RunRank(int id, const Body& body);
  void SetDriver(int id, uint64_t thread);
  void ForgetErrors(int id);
  void ShareDrivers();  // needs mutex_
  // The rank posts nothing more for now; with `failed` nor does any rank of this Run.
  void Leave(int id, const std::string& cause, bool failed);
  void ComeBack(int id);
  // The streams of a rank; those of Groups live as long as `keep`.  Few: a wait allocates nothing.
  using Streams = absl::InlinedVector<Stream*, 8>;
  using KeptGroups = absl::InlinedVector<std::shared_ptr<Group>, 8>;
  Streams StreamsOf(int id, KeptGroups& keep);
  absl::Status SynchronizeRank(int id, absl::Duration timeout);
  void ReapGroups();                                          // needs mutex_
  void KeepLog(const std::shared_ptr<const RegionLog>& log);  // of a new Group
  // Moves the calling thread, if it drives a rank and stands on the core of another rank's.
  void SpreadOut() const;
  // Where what moves the ranks' data is broken: fails all Groups, then aborts what is under way.
  void CheckHealth();
  // The same where a stream of a rank has stood still for too long while somebody waited for
  // `stream`, of whomever; otherwise how long until that is so.
  absl::Duration CheckStanding(Stream& stream, absl::Duration waited);
  bool TakesTheLook(absl::Duration now, absl::Duration interval);
  void Break(const Failure& cause);        // once; needs mutex_ not to be held
  void BreakGroups(const Failure& cause);  // needs mutex_
  // Health, in world_health.cc; all `groups` that are known.
  void SetState(const Groups& groups, WorldHealth& health) const;
  void SetProgress(const std::vector<RecentOperation>& recent,
                   const std::vector<FlightRing::Place>& places, const Groups& groups,
                   RankHealth& health);
  static bool HasRun(const RecentOperation& operation, const FlightRing::Place& place,
                     const RankState& rank, const Groups& groups);
  absl::Status CheckRanks(const std::vector<int>& ranks) const;
  absl::StatusOr<GroupOptions> OptionsOf(const std::vector<int>& ranks,
                                         const RegionOptions& options);

  const std::shared_ptr<Backend> backend_;
  const std::shared_ptr<RunState> run_ = std::make_shared<RunState>();
  const std::shared_ptr<WorldFlight> flight_ = std::make_shared<WorldFlight>();
  const WorldOptions options_;
  std::vector<std::shared_ptr<RankState>> ranks_;
  std::vector<std::unique_ptr<Rank>> doors_;    // what a rank's function is given
  std::unique_ptr<Communicator> communicator_;  // what Groups split; null for one rank
  Mesh mesh_;
  std::unique_ptr<Region> world_region_;
  std::array<std::vector<Region>, kAxes.size()> axis_regions_;

  sync::Mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::shared_ptr<Group>> groups_;
  std::map<std::vector<int>, std::map<uint64_t, Joining>> joining_;
  std::vector<std::map<std::vector<int>, uint64_t>> join_counts_;  // by rank
  bool running_ = false;
  bool closed_ = false;
  bool stuck_ = false;
  bool watching_ = false;
  bool broken_ = false;
  sync::Atomic<int64_t> last_look_{0};  // of CheckStanding, in nanoseconds
  int more_exceptions_ = 0;             // of the Run that is on, beside the first error
  absl::Status first_status_;           // the first error of the Run that is on

  const Body* body_ = nullptr;       // of the Run that is on
  sync::Atomic<uint64_t> turn_{0};   // Runs begun
  sync::Atomic<int> busy_ranks_{0};  // of this Run
  sync::Atomic<bool> stopping_{false};
  sync::Signal turn_signal_, done_signal_;
  std::vector<sync::Thread> threads_;
};

}  // namespace mp

#endif  // MP_WORLD_STATE_H_
