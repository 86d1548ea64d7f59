// What every rank of a Region does between two points, recorded once and launched any number of
// times: its compute stream's kernels, copies and scalings, and the Region's operations.
//
//   MP_ASSIGN_OR_RETURN(mp::Graph step, rank.region().Capture([&](mp::RankRegion& region) {
//     MP_RETURN_IF_ERROR(region.stream().Launch(MyRowParallelLayer{x, y}));
//     return region.AllReduce(y);
//   }));
//   for (;;) MP_RETURN_IF_ERROR(step.Launch());  // every rank; reads what x and y hold then
//
// Recorded, and not queued, is what the capturing thread calls for the rank while the function
// runs: Launch, Copy, Scale, Record and Wait of the compute stream; the Region's operations,
// batches and Start forms, whose Works are waited for with Work::Wait on that stream before the
// function ends.  Calls are checked as always.  Other threads, other streams and other ranks are
// not affected, and what is queued already runs on.
//
// When the last rank's function has returned, the ranks' lists of operations are compared like
// operations, position by position.  Capture returns when that is done; it waits for other ranks,
// not for devices.  A launch is one operation of the Region: the ranks must launch the same graph,
// and it runs when the compute streams of all of them have come to it.
//
// On CUDA a kernel's LaunchOn is called once, on the thread of any rank, before Capture returns.
//
// Errors.    Whatever is refused while the function runs ends the capture with that error on every
//            rank, and so does an error that the function returns or an exception (UserException);
//            nothing is compared or run then, and the Region goes on.  UsageError: Synchronize, a
//            wait for what is not recorded, another Region's operation, a capture or launch inside
//            a capture, an overlapped operation that nothing waits for.  Mismatch: the lists
//            differ, or different graphs are launched.  Unsupported: too much for one graph.  What
//            a kernel's LaunchOn refuses is told to all.  A launch on a closed Region or World is
//            Closed.
// Threads.   A Graph is a value; copies are the same graph.  One that a rank's Region has captured
//            is launched on the thread that drives the rank; one that Region has, by any thread, as
//            the one-call door (while nobody drives the ranks).
// Ownership. Kernels are kept as long as the graph, or its last launch, lives.  Pointers are
//            recorded, not what they point to: memory, that of Buffers too, must outlive the
//            graph's last launch.  A Graph keeps its Region's state alive and may outlive the
//            World. An Event or Work of a capture has a meaning inside it only.
#ifndef MP_GRAPH_H_
#define MP_GRAPH_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mp {

class Group;
class Rank;
struct GraphHandle;

class Graph {
 public:
  // None; its Launch is a UsageError.
  Graph() = default;

  // Queues one run of it on the rank's compute stream, or on those of all ranks.
  absl::Status Launch() const;

  // The same graph as `rank` launches it.  InvalidArgument: the rank is not a member.
  absl::StatusOr<Graph> ForRank(const Rank& rank) const;

 private:
  friend class Group;
  Graph(std::shared_ptr<const GraphHandle> handle, int peer)
      : handle_(std::move(handle)), peer_(peer) {}
  std::shared_ptr<const GraphHandle> handle_;
  int peer_ = -1;  // of the rank that launches it; -1 for all
};

}  // namespace mp

#endif  // MP_GRAPH_H_
