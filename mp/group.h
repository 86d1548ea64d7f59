// The scheduler of one Region: takes the ranks' posts in, lets them agree, gives tickets, issues.
// Internal; region.h has the doors.
//
// An operation goes this way, all of it under the Order lock:
//
//   post       its rank's descriptor joins the operation of that sequence number, and its place is
//              taken on the rank's stream
//   agreement  with the last post; a disagreement fails the Group
//   ticket     when it is the oldest post of all its ranks, over all Regions
//   issue      at once where streams hold places; else in ticket order, without the lock
//
// A failed Group drops the operations from the failed one on and repeats its first cause for ever.
#ifndef MP_GROUP_H_
#define MP_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "mp/backend.h"
#include "mp/base/ring_queue.h"
#include "mp/base/sync.h"
#include "mp/communicator.h"
#include "mp/flight.h"
#include "mp/graph.h"
#include "mp/group_options.h"
#include "mp/operation.h"
#include "mp/order.h"
#include "mp/plan.h"
#include "mp/work.h"

namespace mp {

class Group : public std::enable_shared_from_this<Group>, private Retirer, private Issuer {
 public:
  // `of_world` is that of all ranks of the World; null where there is one.
  static absl::StatusOr<std::shared_ptr<Group>> Create(
      std::shared_ptr<Backend> backend, std::vector<std::shared_ptr<RankState>> members,
      Communicator* of_world, GroupOptions options);
  ~Group() override;

  int size() const { return static_cast<int>(members_.size()); }
  const std::string& name() const { return options_.name; }
  const GroupOptions& options() const { return options_; }
  const std::shared_ptr<RegionLog>& log() const { return log_; }
  RankState& member(int peer) const { return *members_[static_cast<size_t>(peer)]; }
  // The position of a rank; -1 where it is no member.
  int PeerOf(const RankState& rank) const;
  Stream& comm_stream(int peer) { return *comm_streams_[static_cast<size_t>(peer)]; }

  // Whether the backend can carry out what `peer` brings.  Unsupported or InvalidArgument: why not.
  absl::Status Inspect(int peer, const Descriptor& step, const Part& part) const {
    if (communicator_ == nullptr) return absl::OkStatus();
    return communicator_->Inspect(step, part, peer);
  }

  // One rank posts a list of steps, with one part each.  Returns when the operation is issued (or
  // holds its place) and the rank is less than max_lead operations ahead.  Fills in `work` unless
  // it is null.
  absl::Status Post(int peer, absl::Span<const Descriptor> steps, absl::Span<const Part> parts,
                    Lane lane, Work* work, const GraphPart& graph_part = {});

  // One thread posts one step for all ranks, with a part of each.  `differing`: the ranks whose
  // arguments give another descriptor.  What the ranks would disagree on is InvalidArgument.
  // Appends to `works` unless it is null.
  absl::Status PostAll(const Descriptor& step, absl::Span<const Part> parts,
                       std::vector<Operation::Differing> differing, Lane lane,
                       std::vector<Work>* works, const GraphPart& graph_part = {});

  // What `Post` and `PostAll` are for a Group of one rank: nothing where the input is the output,
  // else one copy.
  absl::Status CheckAlone(const Plan& plan);
  absl::Status PostAlone(const Plan& plan, Lane lane, Work* work);

  // Graphs, in group_graph.cc; a peer of -1 launches for all.
  absl::StatusOr<Graph> Capture(int peer, const CaptureBody& body);
  absl::StatusOr<Graph> CaptureAll(const CaptureBody& body);
  absl::Status Launch(int peer, RecordedGraph& graph);
  void LetGo(RecordedGraph& graph);  // a handle has gone
  int live_graphs() const;
  void ReleaseCompiled();  // nothing is launched any more
  // Where the calling thread's calls for the rank go, by PostRecorded; null where they are posted.
  Recording* RecordingOf(int peer) const;
  absl::Status PostRecorded(int peer, absl::Span<const Descriptor> steps,
                            absl::Span<const Part> parts, Lane lane, Work* work);

  // UsageError: the calling thread does not drive the rank.
  absl::Status CheckDriver(int peer) const;
  // Whether one thread may call for all ranks now; with the Order lock held.
  absl::Status CheckPostAll(Lane lane) const;
  Order& order() { return order_; }

  absl::Status status() const;
  // Fails the Group; operations that have no ticket yet come to nothing.
  void Fail(ErrorKind kind, absl::string_view message);
  // The status of the operation with this sequence number, as far as it is known.
  absl::Status StatusOf(uint64_t sequence) const;

  // No operation of it is under way and nobody else holds it.  One thread at a time.
  bool IsIdle();

  // With the Order lock held -------------------------------------------------------------------

  // `peer` will post nothing more for now, because of `cause` ("its function returned OK").
  void MemberLeft(int peer, absl::string_view cause);
  void MemberCameBack() { --left_; }
  void FailWithRun();  // the World's Run has failed
  // Whether an operation has no ticket yet.
  bool waiting() const;
  // Fails the Group where an operation has been missing ranks for too long; else returns how long
  // until that is so.
  absl::Duration CheckAbsence(absl::Duration now, std::vector<std::string>& warnings);
  void FailLocked(uint64_t from, ErrorKind kind, std::string message);
  // The ranks that have not posted this operation; "Region "tensor", operation 7".
  std::vector<int> MissingRanks(uint64_t sequence) const;
  std::string Head(uint64_t sequence) const;
  // What the Group has issued is about to be aborted: fails all of its operations, once, those that
  // have ended too, since nobody can tell any more which those are.
  void Break(const Failure& cause);

 private:
  using Slot = QueuedOperation;
  Group(std::shared_ptr<Backend> backend, std::vector<std::shared_ptr<RankState>> members,
        GroupOptions options);

  Stream& LaneStream(int peer, Lane lane);
  absl::Status CheckRoom(int peer, Lane lane);
  absl::Status OrderInputs(int peer, Lane lane);
  bool AllRetired() const;
  // Posting; with the lock held.
  absl::Status CheckPost(int peer);
  bool EnterAll(Operation& operation, Lane lane, absl::Span<bool> arrives);
  void Append(int peer, Operation& operation);
  void Shorten(Slot& slot, absl::Span<const Part> parts) const;
  Operation& Join(int peer, absl::Span<const Descriptor> steps, absl::Span<const Part> parts);
  Operation* NewOperation();
  static void SetGraph(Operation& operation, RecordedGraph* graph);
  void AgreeOrFail(Operation& operation);
  // Tickets; with the lock held.
  static bool Ready(const Operation& operation);
  static void GiveTickets(std::vector<Pending> next);
  void GiveTicket(Operation& operation, std::vector<Pending>& next);
  void TicketOrFindCrossing(Operation& operation);
  static bool LeadsBack(std::vector<Pending>& path, std::vector<const Operation*>& seen);
  void DropFrom(uint64_t from, std::vector<Pending>& next);

  void IssueTicketed();
  void IssueNow(Operation& operation) override;
  void Retire(Operation& operation) override;
  void Ran(Operation& operation) override;
  absl::Status AwaitLead(int peer, uint64_t sequence, bool until_issued);
  absl::Status CheckNotRecording() const;
  absl::StatusOr<std::shared_ptr<Recording>> Record(int peer, const CaptureBody& body);
  absl::StatusOr<Graph> ConcludeAlone(const std::shared_ptr<Recording>& recording, int peer);
  void Conclude(std::vector<std::shared_ptr<Recording>> recordings, bool locked);
  absl::StatusOr<Graph> Concluded(const Recording& recording, int peer);
  absl::Status ReplayAlone(const Recording& recording);
  void ReapGraphs();
  std::string Absence(const Slot& slot, absl::Duration waited) const;
  std::string RecentPosts(ErrorKind kind, uint64_t sequence) const;
  std::string OnRank(int peer) const;

  const std::shared_ptr<Backend> backend_;
  Order& order_;
  sync::Clock& clock_;
  const std::vector<std::shared_ptr<RankState>> members_;
  std::vector<int> ranks_;  // their numbers
  const GroupOptions options_;
  const std::shared_ptr<RegionLog> log_;
  const std::string* traced_name_ = nullptr;    // null where the World is not traced
  std::unique_ptr<Communicator> communicator_;  // null for one rank
  std::vector<std::unique_ptr<Stream>> comm_streams_;
  std::vector<Event> ends_;  // of them, once nobody holds it

  // Guarded by the Order's mutex.
  std::vector<uint64_t> next_;  // the sequence number of each peer's next post
  RingQueue<Slot> window_;      // operations without a ticket, by sequence
  uint64_t window_begin_ = 0;   // the sequence number of window_.front()
  int left_ = 0;                // members that have left
  Failure failure_;
  uint64_t failed_from_ = 0;
  bool broken_ = false;
  std::vector<std::unique_ptr<Operation>> operations_;  // all of them
  std::vector<Operation*> free_;
  std::vector<std::unique_ptr<RecordedGraph>> graphs_;
  uint64_t last_graph_ = 0;

  sync::Atomic<bool> failed_{false};
  sync::Atomic<uint64_t> issued_{0};  // operations that hold their ticket, or are on their devices
  sync::Signal progress_;
  sync::Atomic<Operation*> retired_{nullptr};  // a list, linked by next_retired
};

}  // namespace mp

#endif  // MP_GROUP_H_
