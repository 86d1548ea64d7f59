// What ranks record between the beginning and the end of a capture, and what is made of it.  Plain
// data between the streams and the scheduler, which fill it in, and a Communicator, which compiles
// it.
//
// Each rank has two lanes: its compute stream, and one for operations that overlap with it.  The
// edges between them are in the list: an overlapped operation begins after what the compute lane
// holds before it, and a join makes the compute lane wait for such an operation.
//
// Threads. A Recording is its rank's thread's until it is posted, then nobody's to change.
#ifndef MP_RECORDING_H_
#define MP_RECORDING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "mp/base/sync.h"
#include "mp/kernel.h"
#include "mp/operation.h"
#include "mp/stream.h"
#include "mp/tensor.h"

namespace mp {

class Group;
struct RecordedGraph;

struct RecordedItem {
  enum class Kind : uint8_t { kKernel, kCopy, kScale, kOperation, kJoin };
  Kind kind = Kind::kKernel;
  std::optional<Kernel> kernel;  // kKernel
  TensorView source, target;     // kCopy, kScale
  double factor = 1;             // kScale
  // kOperation: what the rank brings, one part for each step, and whether it overlaps.
  std::vector<Descriptor> steps;
  std::vector<Part> parts;
  bool overlaps = false;
  size_t operation = 0;  // kOperation, kJoin: its number among the operations of the list, from 0
};

class Recording {
 public:
  // Of what is called for `group`; its rank has this compute stream.  `rank`: "rank 2".
  Recording(const Group& group, const Stream& compute, std::string rank);

  // Never the same for two.
  uint64_t id() const { return id_; }
  const Group& group() const { return group_; }
  const std::vector<RecordedItem>& items() const { return items_; }
  size_t operation_count() const { return operations_; }
  // The first error of a call that was recorded here, or of the capture itself.
  const absl::Status& status() const { return status_; }

  // Keeps the first error, and gives it back: nothing that follows is recorded.
  absl::Status Refuse(const absl::Status& status);
  absl::Status Add(RecordedItem item);
  // What `stream` marks behind an overlapped operation, or behind all that is recorded so far.
  absl::Status AddOperation(absl::Span<const Descriptor> steps, absl::Span<const Part> parts,
                            bool overlaps);
  Event MarkOf(Stream& stream, bool overlaps) const;
  // The compute stream shall wait for `event`.
  absl::Status Join(const Event& event);
  // UsageError where something overlapped was not joined.
  absl::Status CheckJoined() const;

  // Where the rank's overlapped operations are recorded; null where the World is not traced.
  Track* overlap_track = nullptr;

  // What became of it, written by whoever completes the capture, then told by `concluded`.
  RecordedGraph* graph = nullptr;
  absl::Status told;
  sync::Atomic<bool> concluded{false};

 private:
  const uint64_t id_;
  const Group& group_;
  const Stream& compute_;
  const std::string rank_;
  std::vector<RecordedItem> items_;
  size_t operations_ = 0;
  size_t overlapped_ = 0;  // one more than the number of the last operation that overlaps
  size_t joined_ = 0;      // one more than that of the last one that was joined
  absl::Status status_;
};

// What a Communicator has made of the recordings.  Destroyed when no launch is under way; may wait
// then for what is still running.
class CompiledGraph {
 public:
  virtual ~CompiledGraph() = default;
  // Whether nothing is left to run of launches that have been retired.
  virtual bool idle() const = 0;
};

// The recordings of all ranks, which agree.
struct RecordedGraph {
  uint64_t id = 0;                                           // in its Region, from 1
  std::vector<std::shared_ptr<const Recording>> recordings;  // by peer
  std::vector<Stream*> streams;                              // by peer: where launches stand
  const std::string* traced_region = nullptr;                // as Operation's
  std::unique_ptr<CompiledGraph> compiled;  // null for one rank, and when the World has closed

  // The scheduler's own.
  int handles = 0;                // guarded by the Order's mutex
  sync::Atomic<int> launches{0};  // that have not been retired
};

}  // namespace mp

#endif  // MP_RECORDING_H_
