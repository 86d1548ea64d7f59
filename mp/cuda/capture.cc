#include "mp/cuda/capture.h"

#include <utility>

#include "mp/base/status.h"
#include "mp/cuda/capture_mode.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/status.h"

namespace mp::cuda {
namespace {

absl::Status NewEvent(cudaEvent_t& event) {
  return MP_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
}

// What `to` captures from now on comes after what `from` has captured.
absl::Status Arrow(const Stream& from, cudaEvent_t event, const Stream& to) {
  MP_RETURN_IF_ERROR(MP_CUDA(cudaEventRecord(event, from.handle())));
  return MP_CUDA(cudaStreamWaitEvent(to.handle(), event, 0));
}

// Ends what captures there, if anything does.
void Abandon(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) return;
  if (status == cudaStreamCaptureStatusNone) return;
  cudaGraph_t graph = nullptr;
  Forgive(cudaStreamEndCapture(stream, &graph));  // it was spoilt
  if (graph != nullptr) cudaGraphDestroy(graph);
}

}  // namespace

Capture::Capture(std::vector<const Device*> devices, bool together, sync::Clock& clock)
    : devices_(std::move(devices)), together_(together), clock_(clock), ranks_(devices_.size()) {}

Capture::~Capture() {
  const RelaxedCapture relaxed;
  for (size_t peer = 0; peer < begun_; ++peer) Abandon(compute(peer).handle());
  for (const Rank& rank : ranks_) {
    if (rank.edge != nullptr) cudaEventDestroy(rank.edge);
    if (rank.last != nullptr) cudaEventDestroy(rank.last);
    for (const cudaEvent_t event : rank.ends) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  ranks_.clear();
}

// Everything is made before the first capture begins.
absl::Status Capture::Open(size_t peer, const Recording& recording) {
  Rank& rank = ranks_[peer];
  const int ordinal = devices_[peer]->ordinal();
  CurrentDevice current(ordinal);
  MP_RETURN_IF_ERROR(current.status());
  MP_ASSIGN_OR_RETURN(rank.compute, Stream::Create(ordinal, clock_));
  MP_RETURN_IF_ERROR(NewEvent(rank.edge));
  MP_RETURN_IF_ERROR(NewEvent(rank.last));
  rank.ends.resize(recording.operation_count(), nullptr);
  for (const RecordedItem& item : recording.items()) {
    if (item.kind != RecordedItem::Kind::kOperation || !item.overlaps) continue;
    MP_RETURN_IF_ERROR(NewEvent(rank.ends[item.operation]));
    if (rank.overlap != nullptr) continue;
    MP_ASSIGN_OR_RETURN(rank.overlap, Stream::Create(ordinal, clock_));
  }
  return absl::OkStatus();
}

absl::Status Capture::Begin(const std::vector<std::shared_ptr<const Recording>>& recordings) {
  const RelaxedCapture relaxed;
  for (size_t peer = 0; peer < ranks_.size(); ++peer) {
    MP_RETURN_IF_ERROR(Open(peer, *recordings[peer]));
  }
  for (size_t peer = 0; peer < (together_ ? 1 : ranks_.size()); ++peer) {
    MP_RETURN_IF_ERROR(
        MP_CUDA(cudaStreamBeginCapture(compute(peer).handle(), cudaStreamCaptureModeThreadLocal)));
    ++begun_;
  }
  for (size_t peer = 1; together_ && peer < ranks_.size(); ++peer) {
    MP_RETURN_IF_ERROR(Arrow(compute(0), ranks_[0].edge, compute(peer)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Stream*> Capture::BeginOperation(size_t peer, size_t number, bool overlaps) {
  Rank& rank = ranks_[peer];
  Stream& stream = overlaps ? *rank.overlap : *rank.compute;
  if (overlaps) MP_RETURN_IF_ERROR(Arrow(*rank.compute, rank.edge, *rank.overlap));
  if (!together_ && number > 0 && overlaps != rank.last_overlaps) {
    MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamWaitEvent(stream.handle(), rank.last, 0)));
  }
  return &stream;
}

absl::Status Capture::EndOperation(size_t peer, size_t number, bool overlaps) {
  Rank& rank = ranks_[peer];
  const cudaStream_t stream = (overlaps ? *rank.overlap : *rank.compute).handle();
  if (overlaps) MP_RETURN_IF_ERROR(MP_CUDA(cudaEventRecord(rank.ends[number], stream)));
  if (together_) return absl::OkStatus();
  rank.last_overlaps = overlaps;
  return MP_CUDA(cudaEventRecord(rank.last, stream));
}

absl::Status Capture::Join(size_t peer, size_t number) {
  return MP_CUDA(cudaStreamWaitEvent(compute(peer).handle(), ranks_[peer].ends[number], 0));
}

absl::Status Capture::CheckActive(size_t peer) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamIsCapturing(compute(peer).handle(), &status)));
  if (status == cudaStreamCaptureStatusActive) return absl::OkStatus();
  return UsageError("calls what cannot be recorded for a graph (CUDA has ended the capture)");
}

// --- the end -------------------------------------------------------------------------------------

absl::Status Capture::JoinLanes() {
  for (const Rank& rank : ranks_) {
    // Something has overlapped wherever there is such a lane.
    if (rank.overlap != nullptr) {
      MP_RETURN_IF_ERROR(Arrow(*rank.overlap, rank.edge, *rank.compute));
    }
  }
  for (size_t peer = 1; together_ && peer < ranks_.size(); ++peer) {
    MP_RETURN_IF_ERROR(Arrow(compute(peer), ranks_[peer].edge, compute(0)));
  }
  return absl::OkStatus();
}

// Uploaded, so that no launch has to.
absl::Status Capture::Instantiate(size_t peer, cudaGraph_t graph,
                                  std::vector<cudaGraphExec_t>& graphs) {
  CurrentDevice current(devices_[peer]->ordinal());
  MP_RETURN_IF_ERROR(current.status());
  cudaGraphExec_t made = nullptr;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaGraphInstantiate(&made, graph, 0)));
  graphs.push_back(made);
  MP_RETURN_IF_ERROR(MP_CUDA(cudaGraphUpload(made, compute(peer).handle())));
  return compute(peer).Synchronize();
}

absl::StatusOr<std::vector<cudaGraphExec_t>> Capture::End() {
  MP_RETURN_IF_ERROR(JoinLanes());
  const RelaxedCapture relaxed;
  // All of them end before any is instantiated, which could wait for a device.
  std::vector<cudaGraph_t> captured(begun_, nullptr);
  absl::Status status;
  for (size_t peer = begun_; peer-- > 0;) {
    const absl::Status ended =
        MP_CUDA(cudaStreamEndCapture(compute(peer).handle(), &captured[peer]));
    if (!ended.ok()) status = ended;
  }
  std::vector<cudaGraphExec_t> graphs;
  for (size_t peer = 0; status.ok() && peer < captured.size(); ++peer) {
    status = Instantiate(peer, captured[peer], graphs);
  }
  for (const cudaGraph_t graph : captured) {
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  if (status.ok()) return graphs;
  for (const cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
  return status;
}

}  // namespace mp::cuda
