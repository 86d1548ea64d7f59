#include "mp/host/graph.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "mp/base/status.h"

namespace mp::host {
namespace {

// Of one rank; two pieces of work each at most, and a stream holds twice as many.
constexpr size_t kMostItems = 250'000;

}  // namespace

absl::StatusOr<std::unique_ptr<CompiledGraph>> HostGraph::Compile(const RecordedGraph& graph,
                                                                  Executor& executor,
                                                                  Memory& memory,
                                                                  sync::Clock& clock) {
  for (const auto& recording : graph.recordings) {
    if (recording->items().size() <= kMostItems) continue;
    return Unsupported(recording->items().size(), " pieces of work in one graph; at most ",
                       kMostItems);
  }
  return std::unique_ptr<CompiledGraph>(new HostGraph(graph, executor, memory, clock));
}

HostGraph::HostGraph(const RecordedGraph& graph, Executor& executor, Memory& memory,
                     sync::Clock& clock)
    : executor_(executor), lists_(graph.recordings.size()) {
  const int ranks = static_cast<int>(graph.recordings.size());
  for (size_t i = 0; i < graph.recordings[0]->operation_count(); ++i) {
    operations_.push_back(
        std::make_unique<HostOperation>(executor, static_cast<Retirer&>(*this), ranks));
    operations_.back()->sequence = i;
    operations_.back()->traced_region = graph.traced_region;
  }
  for (size_t peer = 0; peer < graph.recordings.size(); ++peer) {
    const Stream& stream = *graph.streams[peer];
    const auto new_lane = [&](Track* track) {
      auto lane = std::make_unique<HostStream>(executor, memory, clock, stream.native().device);
      lane->set_name(stream.name());
      lane->set_track(track);
      return lane;
    };
    // The rank's stream stands still while the lane records.
    lanes_.push_back(new_lane(stream.track()));
    overlap_lanes_.push_back(new_lane(graph.recordings[peer]->overlap_track));
    AddRank(graph, peer);
  }
}

HostGraph::~HostGraph() {
  while (retired_.load(sync::kAcquire) != due_) sync::Yield();
}

void HostGraph::AddRank(const RecordedGraph& graph, size_t peer) {
  for (const RecordedItem& item : graph.recordings[peer]->items()) {
    Piece piece;
    piece.operation = item.operation;
    switch (item.kind) {
      case RecordedItem::Kind::kKernel:
        piece.kernel = &*item.kernel;
        break;
      case RecordedItem::Kind::kCopy:
        piece.kernel = &kernels_.emplace_back(HostStream::NewCopy(item.source, item.target));
        break;
      case RecordedItem::Kind::kScale:
        piece.kernel =
            &kernels_.emplace_back(HostStream::NewScale(item.source, item.target, item.factor));
        break;
      case RecordedItem::Kind::kOperation:
        piece.kind = item.overlaps ? Piece::Kind::kOverlapped : Piece::Kind::kOperation;
        AddOperation(item, peer, *(item.overlaps ? overlap_lanes_ : lanes_)[peer]);
        break;
      case RecordedItem::Kind::kJoin:
        piece.kind = Piece::Kind::kJoin;
        break;
    }
    lists_[peer].push_back(piece);
  }
}

void HostGraph::AddOperation(const RecordedItem& item, size_t peer, HostStream& stream) {
  HostOperation& operation = *operations_[item.operation];
  const size_t ranks = lists_.size();
  if (peer == 0) {
    operation.steps = item.steps;
    operation.parts.resize(item.steps.size() * ranks);
  }
  for (size_t step = 0; step < item.parts.size(); ++step) {
    operation.parts[step * ranks + peer] = item.parts[step];
  }
  operation.streams[peer] = &stream;
}

void HostGraph::Start(HostOperation& launch, Strands& strands) {
  due_ += operations_.size();
  for (const auto& operation : operations_) operation->Issue();  // their strands are yet to come
  // The strands that this thread owns.  The others are still at the end of the last launch and go
  // on by themselves, so that this one may be over, and the graph gone, when the last piece of
  // the last list has been queued.
  absl::InlinedVector<HostStream*, 16> owned;
  std::vector<uint64_t> ends(operations_.size());  // of overlapped operations, in their lanes
  const size_t ranks = lists_.size();
  Executor& executor = executor_;
  for (size_t peer = 0; peer < ranks; ++peer) {
    HostStream& lane = *lanes_[peer];
    HostStream& overlap_lane = *overlap_lanes_[peer];
    const int rank = static_cast<int>(peer);
    bool owns = false, owns_overlap = false;
    for (const Piece& piece : lists_[peer]) {
      switch (piece.kind) {
        case Piece::Kind::kCompute:
          owns |= lane.PushCompute(*piece.kernel);
          break;
        case Piece::Kind::kOperation:
          owns |= operations_[piece.operation]->Queue(rank);
          break;
        case Piece::Kind::kOverlapped:
          owns_overlap |= overlap_lane.PushWait(lane.Here());
          owns_overlap |= operations_[piece.operation]->Queue(rank);
          ends[piece.operation] = overlap_lane.Here().position;
          break;
        case Piece::Kind::kJoin:
          owns |= lane.PushWait(Event{&overlap_lane, ends[piece.operation]});
          break;
      }
    }
    if (owns_overlap) owned.push_back(&overlap_lane);
    if (lane.PushEnd(launch, rank) || owns) owned.push_back(&lane);
  }
  for (HostStream* stream : owned) {
    executor.steps_singly() ? stream->SubmitOwned() : strands.Push(*stream);
  }
}

void HostGraph::Retire(Operation&) { retired_.fetch_add(1, sync::kRelease); }

}  // namespace mp::host
