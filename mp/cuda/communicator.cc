#include "mp/cuda/communicator.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/cuda/capture_mode.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/gather.h"
#include "mp/cuda/graph.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/cuda/reduction.h"
#include "mp/cuda/status.h"
#include "mp/cuda/stream.h"

namespace mp::cuda {
namespace {

class CudaOperation final : public Operation {
 public:
  CudaOperation(Retirer& retirer, size_t size) : retirer_(retirer), places_(size, 0) {
    world_size = static_cast<int>(size);
    streams.resize(size);
    positions.resize(size, kNowhere);
  }

  void Enter(size_t peer) { positions[peer] = places_[peer] = Stream::Of(*streams[peer]).Open(); }

  // The operation is enqueued, or nothing will be.
  void Finish() {
    for (size_t peer = 0; peer < places_.size(); ++peer) {
      if (places_[peer] != 0) Stream::Of(*streams[peer]).Close(places_[peer]);
      places_[peer] = 0;
    }
    retirer_.Retire(*this);
  }

 private:
  Retirer& retirer_;
  std::vector<uint64_t> places_;  // the open marks; 0 for none
};

Stream& StreamOf(const Operation& operation, size_t peer) {
  return Stream::Of(*operation.streams[peer]);
}

std::vector<const Device*> DevicesOf(const Clique& clique, const std::vector<int>& ranks) {
  std::vector<const Device*> devices;
  for (const int rank : ranks) devices.push_back(clique.devices()[static_cast<size_t>(rank)]);
  return devices;
}

}  // namespace

CudaCommunicator::CudaCommunicator(std::shared_ptr<Clique> clique, std::vector<int> ranks,
                                   const Limits& limits)
    : clique_(std::move(clique)),
      ranks_(std::move(ranks)),
      devices_(DevicesOf(*clique_, ranks_)),
      limits_(limits),
      direct_(devices_),
      edges_(ranks_.size(), nullptr) {
  reach_.nccl = clique_->uses_nccl();
  reach_.peers = direct_.reaches_all();
  reach_.direct = limits.direct && reach_.peers && size() <= size_t{kMostRanks};
  reach_.gpus = direct_.gpus();
  reach_.direct_bytes = limits.direct_bytes;
}

absl::StatusOr<std::unique_ptr<Communicator>> CudaCommunicator::Create(
    std::shared_ptr<Clique> clique, std::vector<int> ranks, const Limits& limits) {
  std::unique_ptr<CudaCommunicator> made(
      new CudaCommunicator(std::move(clique), std::move(ranks), limits));
  MP_RETURN_IF_ERROR(made->Open());
  return made;
}

absl::Status CudaCommunicator::Open() {
  MP_ASSIGN_OR_RETURN(comms_, clique_->Split(ranks_));
  sync::MutexLock lock(clique_->launch());
  if (reach_.nccl && !reach_.peers) {
    std::vector<Device*> devices;
    for (size_t peer = 0; peer < size(); ++peer) devices.push_back(&device(peer));
    absl::StatusOr<std::unique_ptr<Relay>> relay =
        Relay::Create(std::move(devices), *comms_, static_cast<size_t>(limits_.workspace_bytes));
    // Some ranks may have been launched then.
    if (!relay.ok()) clique_->SetBroken(relay.status());
    MP_RETURN_IF_ERROR(relay.status());
    relay_ = *std::move(relay);
  }
  for (size_t peer = 0; peer < size(); ++peer) {
    CurrentDevice current(device(peer).ordinal());
    MP_RETURN_IF_ERROR(current.status());
    MP_RETURN_IF_ERROR(MP_CUDA(cudaEventCreateWithFlags(&edges_[peer], cudaEventDisableTiming)));
  }
  return absl::OkStatus();
}

CudaCommunicator::~CudaCommunicator() {
  sync::MutexLock lock(clique_->launch());
  relay_.reset();
  for (const cudaEvent_t edge : edges_) {
    if (edge != nullptr) cudaEventDestroy(edge);
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> CudaCommunicator::Split(
    const std::vector<int>& peers) {
  std::vector<int> ranks;
  for (const int peer : peers) ranks.push_back(ranks_[static_cast<size_t>(peer)]);
  return Create(clique_, std::move(ranks), limits_);
}

// --- operations ----------------------------------------------------------------------------------

std::unique_ptr<Operation> CudaCommunicator::NewOperation(Retirer& retirer) {
  return std::make_unique<CudaOperation>(retirer, size());
}

bool CudaCommunicator::Enter(Operation& operation, int peer) {
  static_cast<CudaOperation&>(operation).Enter(static_cast<size_t>(peer));
  return false;
}

void CudaCommunicator::Drop(Operation& operation) {
  static_cast<CudaOperation&>(operation).Finish();
}

absl::Status CudaCommunicator::Issue(Operation& operation) {
  const absl::Status status = Enqueue(operation);
  static_cast<CudaOperation&>(operation).Finish();
  return status;
}

absl::Status CudaCommunicator::Enqueue(const Operation& operation) {
  sync::MutexLock lock(clique_->launch());
  MP_RETURN_IF_ERROR(clique_->CheckNotBroken());
  CurrentDevice current;
  MP_RETURN_IF_ERROR(current.status());
  const auto enqueue = [&] {
    if (operation.graph == nullptr) return EnqueueSteps(operation, {.reach = reach_});
    return EnqueueGraph(operation, static_cast<CudaGraph&>(*operation.graph->compiled));
  };
  // Without collective kernels nothing waits for what a later operation has to start.
  if (!reach_.nccl) return enqueue();
  for (size_t peer = 0; peer < size(); ++peer) {
    MP_RETURN_IF_ERROR(device(peer).TakeTurn(StreamOf(operation, peer)));
  }
  absl::Status status = enqueue();
  // Also behind what has been enqueued of an operation that failed.
  for (size_t peer = 0; peer < size(); ++peer) {
    const absl::Status ended = device(peer).EndTurn(StreamOf(operation, peer));
    if (status.ok()) status = ended;
  }
  return status;
}

absl::Status CudaCommunicator::EnqueueSteps(const Operation& operation, const Way& way) {
  bool nccl = false;
  bool meets = false;
  routes_.clear();
  for (int step = 0; step < operation.step_count(); ++step) {
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    routes_.push_back(RouteFor(what, operation.step_parts(step), way.reach));
    const bool by_nccl = routes_.back() == StepRoute::kNccl;
    nccl = nccl || by_nccl;
    meets = meets || !by_nccl || what.shared_output;
  }
  if (nccl) {
    const absl::Status status = EnqueueReductions(operation);
    // Some ranks may have been launched and wait for ever for the others.
    if (!status.ok() && !way.captures) clique_->SetBroken(status);
    MP_RETURN_IF_ERROR(status);
  }
  if (!meets) return absl::OkStatus();
  const absl::Status status = EnqueueRest(operation, way);
  if (!status.ok() && !way.captures) Drain(operation);
  return status;
}

// Of an operation that has failed: nobody is ordered behind what has been enqueued, and whoever is
// told may free the memory.
void CudaCommunicator::Drain(const Operation& operation) const {
  const RelaxedCapture relaxed;
  for (size_t peer = 0; peer < size(); ++peer) {
    cudaStreamSynchronize(StreamOf(operation, peer).handle());
  }
}

// --- NCCL ----------------------------------------------------------------------------------------

bool CudaCommunicator::UsesNccl(int step) const {
  return routes_[static_cast<size_t>(step)] == StepRoute::kNccl;
}

absl::Status CudaCommunicator::EnqueueReductions(const Operation& operation) {
  MP_RETURN_IF_ERROR(ScaleFirst(operation));
  MP_RETURN_IF_ERROR(EnqueueGroup(operation));
  return DivideSums(operation);
}

absl::Status CudaCommunicator::EnqueueGroup(const Operation& operation) {
  Reductions reductions;
  MP_RETURN_IF_ERROR(MP_CUDA(ncclGroupStart()));
  absl::Status status;
  for (int step = 0; step < operation.step_count(); ++step) {
    if (!UsesNccl(step)) continue;
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    for (size_t peer = 0; peer < size() && status.ok(); ++peer) {
      status = EnqueueReduction(what, operation.step_parts(step)[peer], peer,
                                StreamOf(operation, peer).handle(), reductions);
    }
  }
  return EndGroup(std::move(status));
}

// Nobody can tell what of a group that has failed the communicators have counted.
absl::Status CudaCommunicator::EndGroup(absl::Status status) {
  const absl::Status end = MP_CUDA(ncclGroupEnd());
  if (status.ok()) status = end;
  if (!status.ok()) clique_->SetBroken(status);
  return status;
}

// What is queued on any stream from now on runs after what all hold: a sum that nobody looks at.
absl::Status CudaCommunicator::MeetByNccl(const Operation& operation) {
  MP_RETURN_IF_ERROR(MP_CUDA(ncclGroupStart()));
  absl::Status status;
  for (size_t peer = 0; peer < size() && status.ok(); ++peer) {
    void* const data = device(peer).warm_up_memory();
    status = MP_CUDA(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, (*comms_)[peer],
                                   StreamOf(operation, peer).handle()));
  }
  return EndGroup(std::move(status));
}

absl::Status CudaCommunicator::EnqueueReduction(const Descriptor& step, const Part& part,
                                                size_t peer, cudaStream_t stream,
                                                Reductions& reductions) {
  const ncclComm_t comm = (*comms_)[peer];
  const auto count = static_cast<size_t>(step.shape.elements());
  const ncclDataType_t type = NcclType(step.dtype);
  const void* input = ScalesFirst(step) ? part.output : part.input;
  MP_ASSIGN_OR_RETURN(const ncclRedOp_t op, reductions.OpFor(step, comm));
  if (!step.shared_output) {
    return MP_CUDA(ncclAllReduce(input, part.output, count, type, op, comm, stream));
  }
  MP_ASSIGN_OR_RETURN(const size_t root, OwnerOf(part.output));
  return MP_CUDA(
      ncclReduce(input, part.output, count, type, op, static_cast<int>(root), comm, stream));
}

absl::Status CudaCommunicator::ScaleFirst(const Operation& operation) {
  for (int step = 0; step < operation.step_count(); ++step) {
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    if (!UsesNccl(step) || !ScalesFirst(what)) continue;
    for (size_t peer = 0; peer < size(); ++peer) {
      const Part& part = operation.step_parts(step)[peer];
      MP_RETURN_IF_ERROR(MP_CUDA(cudaSetDevice(device(peer).ordinal())));
      MP_RETURN_IF_ERROR(
          MP_CUDA(LaunchScale(what.dtype, part.input, part.output, what.shape.elements(),
                              what.scale, StreamOf(operation, peer).handle())));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaCommunicator::DivideSums(const Operation& operation) {
  for (int step = 0; step < operation.step_count(); ++step) {
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    if (!UsesNccl(step) || what.reduce_op != ReduceOp::kAvg) continue;
    for (size_t peer = 0; peer < size(); ++peer) {
      const Part& part = operation.step_parts(step)[peer];
      if (what.shared_output) {
        MP_ASSIGN_OR_RETURN(const size_t root, OwnerOf(part.output));
        if (root != peer) continue;
      }
      MP_RETURN_IF_ERROR(MP_CUDA(cudaSetDevice(device(peer).ordinal())));
      MP_RETURN_IF_ERROR(
          MP_CUDA(LaunchDivide(what.dtype, part.output, what.shape.elements(),
                               static_cast<int>(size()), StreamOf(operation, peer).handle())));
    }
  }
  return absl::OkStatus();
}

// --- mp's own kernels and copies -----------------------------------------------------------------

absl::Status CudaCommunicator::EnqueueRest(const Operation& operation, const Way& way) {
  MP_RETURN_IF_ERROR(PlanRest(operation));
  if (way.meets_by_nccl) {
    MP_RETURN_IF_ERROR(MeetByNccl(operation));
    if (direct_.idle() && relayed_.empty()) return absl::OkStatus();
    MP_RETURN_IF_ERROR(EnqueueRelays(operation, way));
    MP_RETURN_IF_ERROR(direct_.Launch(operation));
    return MeetByNccl(operation);
  }
  const bool at_first = direct_.central() && relayed_.empty();
  MP_RETURN_IF_ERROR(MeetAtFirst(operation, /*only_workers=*/false));
  if (!at_first) MP_RETURN_IF_ERROR(LeaveFirst(operation));
  MP_RETURN_IF_ERROR(EnqueueRelays(operation, way));
  MP_RETURN_IF_ERROR(direct_.Launch(operation));
  if (at_first) return LeaveFirst(operation);
  return MeetBehind(operation);
}

absl::Status CudaCommunicator::PlanRest(const Operation& operation) {
  direct_.Clear();
  relayed_.clear();
  relayed_ends_.clear();
  for (int step = 0; step < operation.step_count(); ++step) {
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    const absl::Span<const Part> parts = operation.step_parts(step);
    switch (routes_[static_cast<size_t>(step)]) {
      case StepRoute::kFold:
        direct_.AddFold(what, parts, /*sliced=*/false);
        break;
      case StepRoute::kSlicedFold:
        direct_.AddFold(what, parts, /*sliced=*/true);
        break;
      case StepRoute::kCopy:
        planned_.clear();
        PlanGather(what, parts, planned_);
        for (const Push& push : planned_) direct_.AddPush(push);
        break;
      case StepRoute::kRelay:
        MP_RETURN_IF_ERROR(PlanRelay(what, parts));
        break;
      case StepRoute::kNone:
      case StepRoute::kNccl:
        break;
    }
  }
  return absl::OkStatus();
}

// NCCL takes memory of the ranks' own devices; the driver takes any to any.
absl::Status CudaCommunicator::PlanRelay(const Descriptor& step, absl::Span<const Part> parts) {
  planned_.clear();
  PlanGather(step, parts, planned_);
  for (Push& push : planned_) {
    MP_ASSIGN_OR_RETURN(const size_t from, OwnerOf(push.from.data));
    MP_ASSIGN_OR_RETURN(const size_t to, OwnerOf(push.to.data));
    if (step.shared_output) push.target = static_cast<int>(to);
    if (from == static_cast<size_t>(push.source) && to == static_cast<size_t>(push.target)) {
      relayed_.push_back(push);
    } else {
      direct_.AddPush(push);
    }
  }
  relayed_ends_.push_back(relayed_.size());
  return absl::OkStatus();
}

absl::Status CudaCommunicator::EnqueueRelays(const Operation& operation, const Way& way) {
  if (relayed_.empty()) return absl::OkStatus();
  absl::InlinedVector<cudaStream_t, 16> streams;
  for (size_t peer = 0; peer < size(); ++peer) {
    streams.push_back(StreamOf(operation, peer).handle());
  }
  absl::Status status;
  size_t begin = 0;
  for (const size_t end : relayed_ends_) {
    const auto pushes = absl::MakeConstSpan(relayed_).subspan(begin, end - begin);
    if (status.ok() && !pushes.empty()) status = relay_->Enqueue(pushes, streams);
    begin = end;
  }
  // Some ranks may have been launched and wait for ever for the others.
  if (!status.ok() && !way.captures) clique_->SetBroken(status);
  return status;
}

// Who got an output, or whose work was done on another one's stream, goes on behind all of it.
absl::Status CudaCommunicator::MeetBehind(const Operation& operation) {
  // What went over NCCL is there when it is, but for an output of all.
  bool by_roots = direct_.gpus() == static_cast<int>(size());
  for (size_t step = 0; step < routes_.size(); ++step) {
    by_roots = by_roots &&
               (operation.steps[step].kind == OpKind::kGather || routes_[step] == StepRoute::kNone);
  }
  if (!by_roots) {
    MP_RETURN_IF_ERROR(MeetAtFirst(operation, /*only_workers=*/true));
    return LeaveFirst(operation);
  }
  for (const Descriptor& step : operation.steps) {
    if (step.kind != OpKind::kGather) continue;
    const auto root = static_cast<size_t>(step.root);
    for (size_t peer = 0; peer < size(); ++peer) {
      if (peer != root && direct_.works(peer)) {
        MP_RETURN_IF_ERROR(Arrow(operation, peer, root));
      }
    }
  }
  return absl::OkStatus();
}

// What is queued on the first stream from now on runs after what all hold.  Meeting at one of them
// takes 2 (n - 1) waits and not n (n - 1).
absl::Status CudaCommunicator::MeetAtFirst(const Operation& operation, bool only_workers) {
  for (size_t peer = 1; peer < size(); ++peer) {
    if (only_workers && !direct_.works(peer)) continue;
    MP_RETURN_IF_ERROR(Arrow(operation, peer, 0));
  }
  return absl::OkStatus();
}

// What is queued on any stream from now on runs after what the first one holds.
absl::Status CudaCommunicator::LeaveFirst(const Operation& operation) {
  MP_RETURN_IF_ERROR(MP_CUDA(cudaEventRecord(edges_[0], StreamOf(operation, 0).handle())));
  for (size_t peer = 1; peer < size(); ++peer) {
    MP_RETURN_IF_ERROR(
        MP_CUDA(cudaStreamWaitEvent(StreamOf(operation, peer).handle(), edges_[0], 0)));
  }
  return absl::OkStatus();
}

// What is queued on `to` from now on runs after what `from` holds.
absl::Status CudaCommunicator::Arrow(const Operation& operation, size_t from, size_t to) {
  MP_RETURN_IF_ERROR(MP_CUDA(cudaEventRecord(edges_[from], StreamOf(operation, from).handle())));
  return MP_CUDA(cudaStreamWaitEvent(StreamOf(operation, to).handle(), edges_[from], 0));
}

}  // namespace mp::cuda
