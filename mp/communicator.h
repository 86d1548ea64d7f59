// How the data of a group of ranks moves: carries out the operations that its ranks have agreed on.
//
// The scheduler calls it like this, for every operation, in the order of the lines:
//
//   Enter(op, peer)   each rank as it posts, in one order for all operations of a Backend; holds
//                     the Order lock.  Takes the rank's place in op.streams[peer], where streams
//                     can hold a place for what is not agreed yet.  In either case an Event
//                     recorded in the stream from now on is done only when the operation is, or
//                     when it was dropped.
//   Issue(op)         once, when all have entered and agree, in ticket order, never two at a time
//                     in one Backend.  With places: lets the operation run as soon as every
//                     stream has reached its place; holds the Order lock.  Without: enqueues it on
//                     every stream, and holds no lock.
//   Arrive(op, peer)  where Enter said so: by the same thread, after it let go of the lock.  May
//                     run work.  ArriveAll(op) instead, where one thread entered for all ranks, was
//                     told so by every Enter, and the operation was issued before.
//   Drop(op)          instead of Issue: the operation came to nothing.  Work behind the places
//                     taken goes on, outputs stay as they were.  Holds the Order lock.
//
// Where a backend cannot carry out a step it says so in Inspect, which the doors ask before they
// post: such a call has no effect on anybody.
//
// It calls Retire of its Retirer, once for each operation, when it no longer looks at it: from
// inside one of these calls or later, after success and failure alike.
#ifndef MP_COMMUNICATOR_H_
#define MP_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/operation.h"
#include "mp/recording.h"

namespace mp {

// Takes operations back for the next use.
class Retirer {
 public:
  virtual ~Retirer() = default;
  virtual void Retire(Operation& operation) = 0;
  // Before that, where whoever carries it out knows: it has run, and its streams are about to go
  // on.
  virtual void Ran(Operation&) {}
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Whether streams hold places.  Where they do not, a door returns only when its operation has
  // been issued, so that what the caller queues next stands behind it.
  virtual bool holds_places() const = 0;

  // A Communicator of some of its peers, in this order, at least two.  What breaks one of those
  // that come from the same Backend::NewCommunicator breaks them all.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(const std::vector<int>& peers) = 0;

  // Whether it can carry out such a step with what `peer` brings to it, as far as one rank's call
  // tells.  Unsupported or InvalidArgument: it cannot, and why.  Any thread, any time.
  virtual absl::Status Inspect(const Descriptor& step, const Part& part, int peer) const = 0;

  // What has broken it: an error of an operation that was issued, or of Issue itself.  Whoever is
  // told calls Abort, after it has told all whose operations may come to nothing by that.
  // Asked by threads that wait, any number at once.
  virtual absl::Status Health() = 0;
  // Ends what was issued and has not ended, here and in all that come from the same
  // NewCommunicator; outputs are left undefined.  Nothing is carried out from then on, and Health
  // is an error.
  virtual void Abort() = 0;

  // A fresh operation for this group, with its world_size and as many streams; `retirer` outlives
  // it.
  virtual std::unique_ptr<Operation> NewOperation(Retirer& retirer) = 0;

  // True where Arrive is to be called.
  virtual bool Enter(Operation& operation, int peer) = 0;
  virtual absl::Status Issue(Operation& operation) = 0;
  virtual void Arrive(Operation& operation, int peer) = 0;
  virtual void ArriveAll(Operation& operation) = 0;
  virtual void Drop(Operation& operation) = 0;

  // Makes of a graph what Issue needs to launch it, as operations of kind kGraph, whose streams are
  // graph.streams.  Called once for a graph, right before the Issue of its capture and under the
  // same lock.  Unsupported or DeviceError: told to all ranks; nothing else has failed.
  virtual absl::StatusOr<std::unique_ptr<CompiledGraph>> Compile(const RecordedGraph& graph) = 0;

  // How it moves data, for `mp info`: "host memory".
  virtual std::string Route() const = 0;

 protected:
  Communicator() = default;
};

}  // namespace mp

#endif  // MP_COMMUNICATOR_H_
