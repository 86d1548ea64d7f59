// The boundary between ranks that hold parts of one model: queues reduce and gather
// operations of a group of ranks and issues them on every device of the group at once.
//
//   return world->Run([](mp::Rank& rank) -> absl::Status {
//     MP_ASSIGN_OR_RETURN(mp::Buffer y, rank.device().Allocate(mp::DType::kF32, {8, 1024}));
//     MP_RETURN_IF_ERROR(rank.stream().Launch(MyRowParallelLayer{y.view()}));
//     MP_RETURN_IF_ERROR(rank.region().AllReduce(y.view()));  // every rank: the sum
//     return rank.stream().Synchronize();
//   });
//
// n ranks; shard r is [..., h_r], H = h_0 + ... + h_(n-1); `dim` may name another dimension.
//
//   operation    input of rank r     output                               on
//   AllReduce    x_r, all one shape  op over all x_r, in place or given   every rank
//   Gather       [..., h_r]          [..., H], rank order along dim       root only
//   AllGather    [..., h_r]          [..., H], rank order along dim       every rank
//   AcquireSlot  none                none: waits for all ranks' streams   every rank
//
// AllReduce takes dense tensors; gathers also rows with one pitch.  A shard that lies in its own
// slot of the output is not copied.  A Region of one rank checks the same things and then does
// nothing where the input is the output, else queues one copy.
//
// Errors.    InvalidArgument: this call is wrong, it had no effect, call again.  Mismatch: the
//            ranks disagree, or one's output overlaps another's tensors; nothing was launched, told
//            to every rank.  (The one-call door sees all ranks: there it is InvalidArgument.)
//            AbsentShard: a rank never came, by deadline or by proof.  After the last two the
//            Region repeats its first cause for ever, and a new Region works.  Errors come from the
//            call or from any later wait, at the latest from Stream::Synchronize.
// Threads.   RankRegion: the thread that drives the rank.  Region: any.
// Ownership. Views are not kept once the operation is done; their memory is the caller's, and
//            must live until then (that of a Buffer does, even if the Buffer goes).
#ifndef MP_REGION_H_
#define MP_REGION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "mp/batch.h"
#include "mp/collective_options.h"
#include "mp/graph.h"
#include "mp/tensor.h"
#include "mp/work.h"

namespace mp {

class Group;
class Rank;
class RankRegion;
class Stream;

// What a capture records: see mp/graph.h.
using CaptureFunction = std::function<absl::Status(RankRegion&)>;

// One rank's door to a Region.  Operations stand in the order of the calls on the rank's compute
// stream; the Start forms on the Region's comm stream, after what the compute stream holds, and
// the caller waits on the Work.
class RankRegion {
 public:
  int world_size() const;
  // This rank's position in the Region: the `root` of others, the r of the table above.
  int peer() const { return peer_; }
  // The rank's compute stream.
  Stream& stream() const;

  absl::Status AllReduce(const TensorView& x, const AllReduceOptions& options = {});
  absl::Status AllReduce(const TensorView& x, const TensorView& output,
                         const AllReduceOptions& options = {});
  // `output` of a rank that is not the root is not looked at.
  absl::Status Gather(const TensorView& shard, const TensorView& output, int root,
                      const GatherOptions& options = {});
  absl::Status AllGather(const TensorView& shard, const TensorView& output,
                         const GatherOptions& options = {});

  // What the caller queues next runs when every rank's stream has come to its own call: after the
  // last use of an output, say, into whose slots others will write again.
  absl::Status AcquireSlot(const AcquireSlotOptions& options = {});

  absl::StatusOr<Work> StartAllReduce(const TensorView& x, const AllReduceOptions& options = {});
  absl::StatusOr<Work> StartAllReduce(const TensorView& x, const TensorView& output,
                                      const AllReduceOptions& options = {});
  absl::StatusOr<Work> StartGather(const TensorView& shard, const TensorView& output, int root,
                                   const GatherOptions& options = {});
  absl::StatusOr<Work> StartAllGather(const TensorView& shard, const TensorView& output,
                                      const GatherOptions& options = {});

  Batch NewBatch() const { return Batch(group_, peer_); }

  // Runs `function` and records, in place of queueing it, what it calls for this rank.  Every rank
  // of the Region captures; each gets the graph once all have, or the first error of any of them.
  absl::StatusOr<Graph> Capture(const CaptureFunction& function);

  // The part of `output` (the whole result of a gather) that `peer`'s shard is joined into: hand it
  // to whatever produces the shard, and the gather copies nothing.  `extents`: the shards' sizes
  // along dim, one for each rank; empty for equal ones.  InvalidArgument: they do not add up.
  // Unsupported: dim is not the last and the slot would not be rows of one pitch.
  absl::StatusOr<TensorView> Slot(const TensorView& output, int peer,
                                  absl::Span<const int64_t> extents = {}, int dim = -1) const;

 private:
  friend class Region;
  friend class WorldState;
  RankRegion(std::shared_ptr<Group> group, int peer) : group_(std::move(group)), peer_(peer) {}
  std::shared_ptr<Group> group_;
  int peer_;
};

struct RegionOptions {
  // A label in messages.
  std::string name;
  // How long a rank waits for an operation that others have not posted; the World's by default.
  std::optional<absl::Duration> absence_timeout;
  // A rank may be this many operations ahead of the slowest; the World's by default.
  std::optional<int> max_lead;
  // The number of its first operation in messages: for a Region that goes on where another ended.
  uint64_t first_sequence = 0;
};

// The application's handle of a Region, and its door for one thread that calls once with every
// rank's tensors: element r of each list is rank r's.  The operation stands on the ranks' compute
// streams; while World::Run or an Attachment drives these ranks only the Start forms are allowed.
// Copies of the handle are the same Region.
class Region {
 public:
  int world_size() const;
  const std::string& name() const;

  absl::Status AllReduce(absl::Span<const TensorView> xs, const AllReduceOptions& options = {});
  absl::Status AllReduce(absl::Span<const TensorView> xs, absl::Span<const TensorView> outputs,
                         const AllReduceOptions& options = {});
  absl::Status Gather(absl::Span<const TensorView> shards, const TensorView& output, int root,
                      const GatherOptions& options = {});
  absl::Status AllGather(absl::Span<const TensorView> shards, absl::Span<const TensorView> outputs,
                         const GatherOptions& options = {});

  // On the Region's comm streams, after what the compute streams hold.  One Work for each rank.
  absl::StatusOr<std::vector<Work>> StartAllReduce(absl::Span<const TensorView> xs,
                                                   const AllReduceOptions& options = {});
  absl::StatusOr<std::vector<Work>> StartAllReduce(absl::Span<const TensorView> xs,
                                                   absl::Span<const TensorView> outputs,
                                                   const AllReduceOptions& options = {});
  absl::StatusOr<std::vector<Work>> StartGather(absl::Span<const TensorView> shards,
                                                const TensorView& output, int root,
                                                const GatherOptions& options = {});
  absl::StatusOr<std::vector<Work>> StartAllGather(absl::Span<const TensorView> shards,
                                                   absl::Span<const TensorView> outputs,
                                                   const GatherOptions& options = {});

  // Calls `function` for every rank, one after the other on the calling thread, and records what it
  // calls for that one.  The ranks' lists of operations differ: InvalidArgument.
  absl::StatusOr<Graph> Capture(const CaptureFunction& function);

  // The door of `rank`.  InvalidArgument: the rank is not a member.
  absl::StatusOr<RankRegion> ForRank(const Rank& rank) const;

  // Takes no more operations: later calls, and those that are not agreed yet, end with Closed.
  // Agreed ones run to their end.  A second Close does nothing.
  void Close();
  // The same with Cancelled, and `reason` in the message.
  void Cancel(absl::string_view reason);
  // OK while the Region works, else its first cause.
  absl::Status status() const;

 private:
  friend class World;
  friend class WorldState;
  friend class Rank;
  explicit Region(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  std::shared_ptr<Group> group_;
};

}  // namespace mp

#endif  // MP_REGION_H_
