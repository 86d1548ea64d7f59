#include "mp/cuda/graph.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/cuda/capture.h"
#include "mp/cuda/capture_mode.h"
#include "mp/cuda/communicator.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/status.h"

namespace mp::cuda {

// --- what is launched ----------------------------------------------------------------------------

absl::Status CudaGraph::Adopt(std::vector<cudaGraphExec_t> graphs,
                              const std::vector<int>& ordinals) {
  graphs_ = std::move(graphs);
  if (count() > 1) clique_->Hold(graphs_);
  ends_.resize(count(), nullptr);
  for (size_t i = 0; i < count(); ++i) {
    CurrentDevice current(ordinals[i]);
    MP_RETURN_IF_ERROR(current.status());
    MP_RETURN_IF_ERROR(MP_CUDA(cudaEventCreateWithFlags(&ends_[i], cudaEventDisableTiming)));
  }
  return absl::OkStatus();
}

CudaGraph::~CudaGraph() {
  const RelaxedCapture relaxed;
  // An error is the streams' to tell.
  for (const cudaEvent_t end : ends_) {
    if (end != nullptr) Forgive(cudaEventSynchronize(end));
  }
  sync::MutexLock lock(clique_->launch());
  clique_->LetGo(graphs_);
  for (const cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
  for (const cudaEvent_t end : ends_) {
    if (end != nullptr) cudaEventDestroy(end);
  }
}

absl::Status CudaGraph::Launch(size_t i, cudaStream_t stream) {
  MP_RETURN_IF_ERROR(MP_CUDA(cudaGraphLaunch(graphs_[i], stream)));
  return MP_CUDA(cudaEventRecord(ends_[i], stream));
}

bool CudaGraph::idle() const {
  const RelaxedCapture relaxed;
  for (const cudaEvent_t end : ends_) {
    const cudaError_t result = cudaEventQuery(end);
    Forgive(result);  // an answer, or the streams' to tell
    if (result == cudaErrorNotReady) return false;
  }
  return true;
}

absl::Status CudaCommunicator::EnqueueGraph(const Operation& operation, CudaGraph& graph) {
  const auto stream = [&operation](size_t peer) {
    return Stream::Of(*operation.streams[peer]).handle();
  };
  MP_RETURN_IF_ERROR(MeetAtFirst(operation, /*only_workers=*/false));
  if (graph.count() == 1) {
    absl::Status status = graph.Launch(0, stream(0));
    for (size_t peer = 1; peer < size() && status.ok(); ++peer) {
      status = MP_CUDA(cudaStreamWaitEvent(stream(peer), graph.end(0), 0));
    }
    if (!status.ok()) Drain(operation);
    return status;
  }
  MP_RETURN_IF_ERROR(LeaveFirst(operation));
  for (size_t peer = 0; peer < size(); ++peer) {
    const absl::Status status = graph.Launch(peer, stream(peer));
    // Those that have been launched wait for ever for the others.
    if (!status.ok()) clique_->SetBroken(status);
    MP_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

// --- what is captured ----------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<CompiledGraph>> CudaCommunicator::Compile(
    const RecordedGraph& graph) {
  auto made = std::make_unique<CudaGraph>(clique_);
  sync::MutexLock lock(clique_->launch());
  MP_RETURN_IF_ERROR(clique_->CheckNotBroken());
  CurrentDevice current;
  MP_RETURN_IF_ERROR(current.status());
  std::vector<int> ordinals;
  for (const Device* it : devices_) ordinals.push_back(it->ordinal());
  Capture capture(devices_, /*together=*/reach_.direct, clique_->clock());
  MP_RETURN_IF_ERROR(capture.Begin(graph.recordings));
  std::vector<size_t> done(size(), 0);  // of each rank's list
  for (size_t number = 0; number < graph.recordings[0]->operation_count(); ++number) {
    MP_RETURN_IF_ERROR(CaptureUpTo(graph, number, done, capture));
    MP_RETURN_IF_ERROR(CaptureOperation(graph, done, capture));
  }
  MP_RETURN_IF_ERROR(CaptureUpTo(graph, SIZE_MAX, done, capture));
  MP_ASSIGN_OR_RETURN(std::vector<cudaGraphExec_t> graphs, capture.End());
  MP_RETURN_IF_ERROR(made->Adopt(std::move(graphs), ordinals));
  return made;
}

// What each rank's list has left before operation `number`.
absl::Status CudaCommunicator::CaptureUpTo(const RecordedGraph& graph, size_t number,
                                           std::vector<size_t>& done, Capture& capture) {
  for (size_t peer = 0; peer < size(); ++peer) {
    const std::vector<RecordedItem>& items = graph.recordings[peer]->items();
    for (; done[peer] < items.size(); ++done[peer]) {
      const RecordedItem& item = items[done[peer]];
      if (item.kind == RecordedItem::Kind::kOperation && item.operation == number) break;
      MP_RETURN_IF_ERROR(CaptureItem(item, peer, capture));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaCommunicator::CaptureItem(const RecordedItem& item, size_t peer,
                                           Capture& capture) {
  Stream& lane = capture.compute(peer);
  switch (item.kind) {
    case RecordedItem::Kind::kCopy:
      return lane.Copy(item.source, item.target);
    case RecordedItem::Kind::kScale:
      return lane.Scale(item.source, item.target, item.factor);
    case RecordedItem::Kind::kJoin:
      return capture.Join(peer, item.operation);
    case RecordedItem::Kind::kKernel:
    case RecordedItem::Kind::kOperation:
      break;
  }
  absl::Status status = lane.Launch(*item.kernel);
  // What it called is its own business as long as the capture goes on.
  if (status.ok()) status = capture.CheckActive(peer);
  if (status.ok()) return status;
  const std::string text = absl::StrCat("kernel \"", item.kernel->name(), "\" of rank ",
                                        ranks_[peer], ": ", status.message());
  const ErrorKind kind = KindOf(status);
  return kind == ErrorKind::kNone ? absl::Status(status.code(), text) : MakeError(kind, text);
}

// The next operation of all lists.
absl::Status CudaCommunicator::CaptureOperation(const RecordedGraph& graph,
                                                std::vector<size_t>& done, Capture& capture) {
  Operation operation;
  operation.world_size = static_cast<int>(size());
  std::vector<const RecordedItem*> items;
  for (size_t peer = 0; peer < size(); ++peer) {
    items.push_back(&graph.recordings[peer]->items()[done[peer]++]);
    const RecordedItem& item = *items[peer];
    MP_ASSIGN_OR_RETURN(Stream * stream,
                        capture.BeginOperation(peer, item.operation, item.overlaps));
    operation.streams.push_back(stream);
  }
  operation.steps = items[0]->steps;
  for (size_t step = 0; step < operation.steps.size(); ++step) {
    for (const RecordedItem* item : items) operation.parts.push_back(item->parts[step]);
  }
  // All direct or all NCCL: no event and no edge can lead from one rank's own graph to another's.
  Way way{.reach = reach_, .captures = true, .meets_by_nccl = !reach_.direct};
  if (reach_.direct) way.reach.nccl = false;
  MP_RETURN_IF_ERROR(EnqueueSteps(operation, way));
  for (size_t peer = 0; peer < size(); ++peer) {
    MP_RETURN_IF_ERROR(capture.EndOperation(peer, items[peer]->operation, items[peer]->overlaps));
  }
  return absl::OkStatus();
}

}  // namespace mp::cuda
