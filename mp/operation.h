// One queued operation of a group, or one batch of them: what its ranks must agree on, and what
// each rank brings.  Plain data between the scheduler, which fills it in, and a Communicator, which
// carries it out.
//
// n ranks; an operation of a batch is a step.  parts[step * n + peer] is what `peer` brings.
#ifndef MP_OPERATION_H_
#define MP_OPERATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "mp/dtype.h"
#include "mp/stream.h"
#include "mp/tensor.h"
#include "mp/trace.h"

namespace mp {

enum class OpKind : uint8_t {
  kAllReduce,    // outputs = reduction over the inputs, on every rank
  kGather,       // root's output = inputs joined along dim
  kAllGather,    // every output = inputs joined along dim
  kAcquireSlot,  // no data: everybody goes on when all are there
  kCapture,      // no data: the ranks' recordings become a graph
  kGraph,        // runs what they have recorded
};

// "AllReduce", "Gather", "AllGather", "AcquireSlot", "Capture", "Graph".
absl::string_view OpKindName(OpKind kind);
// Whether its parts are tensors.
constexpr bool MovesData(OpKind kind) { return kind < OpKind::kAcquireSlot; }

// What is the same on every rank of an operation; mp/agreement.cc has the table that compares it.
struct Descriptor {
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kF32;
  ReduceOp reduce_op = ReduceOp::kSum;
  bool shared_output = false;
  int root = -1;       // gathers to one rank; else -1
  int dim = -1;        // gathers: the joined dimension, counted from 0; else -1
  double scale = 1.0;  // every input is multiplied by it first
  uint64_t graph = 0;  // kGraph: which
  // The shape of an input; for gathers with dimension `dim` set to 0.
  Shape shape;
};

// What one rank brings to one step.
struct Part {
  const void* input = nullptr;
  int64_t input_pitch = 0;  // bytes from row to row
  void* output = nullptr;   // null where the rank gets nothing
  int64_t output_pitch = 0;
  int64_t input_extent = 0;   // gathers: the input's size along dim
  int64_t output_extent = 0;  // gathers: the output's size along dim, where there is one
  // How long the rank waits for others that do not come; negative: as long as its group.
  absl::Duration absence_timeout = -absl::InfiniteDuration();
};

// How a gather's tensors lie in memory: input r is `outer` blocks of run * input_extent(r) rows, a
// row has row_bytes contiguous bytes and starts one pitch behind the last one.  The output's blocks
// are the inputs' blocks in rank order.  Where the last dimension is joined (joins_columns) a block
// is one row instead, of row_bytes (bytes for one element along dim) * input_extent(r) bytes.
struct GatherLayout {
  bool joins_columns = false;
  int64_t outer = 0;
  int64_t run = 0;
  int64_t row_bytes = 0;
};
GatherLayout LayoutOf(const Descriptor& descriptor);

class Recording;
struct RecordedGraph;

class Operation {
 public:
  virtual ~Operation() = default;

  // Written by the scheduler before Communicator::Issue, constant from then on -----------------
  int world_size = 0;
  uint64_t sequence = 0;  // position in its group's order, from 0
  uint64_t ticket = 0;    // position in the Backend's order, from 1
  std::vector<Descriptor> steps;
  std::vector<Part> parts;
  std::vector<Stream*> streams;    // streams[peer]: where the peer's part stands
  RecordedGraph* graph = nullptr;  // kGraph: what is launched
  // Its Region's name in the trace; null where nothing is recorded, else all of its streams record.
  const std::string* traced_region = nullptr;

  int step_count() const { return static_cast<int>(steps.size()); }
  absl::Span<const Part> step_parts(int step) const {
    return absl::MakeConstSpan(parts).subspan(static_cast<size_t>(step * world_size),
                                              static_cast<size_t>(world_size));
  }

  // What a trace says of it, times and bytes left out; and of the part of `peer`, times left out.
  Span Outline() const;
  Span SpanOf(int peer) const;

  // The scheduler's own, guarded by its Order ---------------------------------------------------
  struct Differing {
    int peer;
    std::vector<Descriptor> steps;
  };
  int posted = 0;  // ranks that have posted it
  int oldest = 0;  // ranks of which it is the oldest post without a ticket
  // By peer: up to where its stream stands still for it, and has come when it has run; kNowhere
  // where no wait for a stream can be for this.  Enter may say so, else the scheduler does.
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  std::vector<uint64_t> positions;
  std::vector<Differing> differing;                    // what disagreed with the first post
  std::vector<std::shared_ptr<Recording>> recordings;  // kCapture: by peer
  Operation* next_retired = nullptr;
};

}  // namespace mp

#endif  // MP_OPERATION_H_
