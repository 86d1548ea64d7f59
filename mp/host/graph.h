// A graph on the host: what the ranks have recorded, on strands of its own.
//
// A launch is a meeting like any operation.  When all strands have come and the ranks agree, they
// stay in their places, and the lists of all ranks are queued on the graph's strands: kernels,
// waits of one lane for the other, and meetings that need no agreement any more.  The last piece of
// a rank's list lets the rank's own strand go on.  So a graph's operations never meet anybody
// else's, and a launch finds the strands free, since all ranks must have come to it.
//
// Threads. Whoever completes the meeting of a launch starts it; one launch at a time.
#ifndef MP_HOST_GRAPH_H_
#define MP_HOST_GRAPH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/base/sync.h"
#include "mp/communicator.h"
#include "mp/host/executor.h"
#include "mp/host/memory.h"
#include "mp/host/operation.h"
#include "mp/host/stream.h"
#include "mp/kernel.h"
#include "mp/recording.h"

namespace mp::host {

class HostGraph final : public CompiledGraph, private Retirer {
 public:
  // Unsupported: more than a stream can hold.
  static absl::StatusOr<std::unique_ptr<CompiledGraph>> Compile(const RecordedGraph& graph,
                                                                Executor& executor, Memory& memory,
                                                                sync::Clock& clock);
  // Waits for the threads that have just run the last launch.
  ~HostGraph() override;
  bool idle() const override { return true; }  // a launch is retired when it is over

  // Runs it, in `strands` and on other threads; `launch` is told when each rank's list is done.
  void Start(HostOperation& launch, Strands& strands);

 private:
  struct Piece {
    enum class Kind : uint8_t { kCompute, kOperation, kOverlapped, kJoin };
    Kind kind = Kind::kCompute;
    const Kernel* kernel = nullptr;
    size_t operation = 0;
  };

  HostGraph(const RecordedGraph& graph, Executor& executor, Memory& memory, sync::Clock& clock);
  void AddRank(const RecordedGraph& graph, size_t peer);
  void AddOperation(const RecordedItem& item, size_t peer, HostStream& stream);
  void Retire(Operation& operation) override;

  Executor& executor_;
  std::deque<Kernel> kernels_;                      // copies and scalings; others are recorded
  std::vector<std::vector<Piece>> lists_;           // by peer
  std::vector<std::unique_ptr<HostStream>> lanes_;  // by peer: the compute lane
  std::vector<std::unique_ptr<HostStream>> overlap_lanes_;
  std::vector<std::unique_ptr<HostOperation>> operations_;
  uint64_t due_ = 0;  // operations started; whoever launches
  sync::Atomic<uint64_t> retired_{0};
};

}  // namespace mp::host

#endif  // MP_HOST_GRAPH_H_
