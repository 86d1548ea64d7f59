#include "mp/cuda/communicator.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/gather.h"
#include "mp/cuda/reduction.h"
#include "mp/cuda/status.h"
#include "mp/cuda/stream.h"

namespace mp::cuda {
namespace {

class NcclOperation final : public Operation {
 public:
  NcclOperation(Retirer& retirer, size_t size) : retirer_(retirer), places_(size, 0) {
    world_size = static_cast<int>(size);
    streams.resize(size);
  }

  void Enter(size_t peer) { places_[peer] = Stream::Of(*streams[peer]).Open(); }

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

bool UsesNccl(const Descriptor& step) {
  return step.kind == OpKind::kAllReduce && step.shape.elements() > 0;
}

Stream& StreamOf(const Operation& operation, size_t peer) {
  return Stream::Of(*operation.streams[peer]);
}

// Which devices the memory is of, the driver knows itself.
absl::Status EnqueuePush(const Push& push, const Stream& stream) {
  const auto side = [&push](const Push::Side& it) {
    return cudaPitchedPtr{it.data, it.pitch, push.width, it.rows};
  };
  cudaMemcpy3DParms copy{};
  copy.srcPtr = side(push.from);
  copy.dstPtr = side(push.to);
  copy.extent = {push.width, push.height, push.depth};
  copy.kind = cudaMemcpyDefault;
  return MP_CUDA(cudaMemcpy3DAsync(&copy, stream.handle()));
}

// Whether an input or output of this extent has no element.
bool IsEmpty(const Descriptor& step, int64_t extent) {
  if (step.dim < 0) return step.shape.elements() == 0;
  return step.shape.With(step.dim, extent).elements() == 0;
}

bool IsShared(const Descriptor& step) { return UsesNccl(step) && step.shared_output; }

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<Clique> clique, std::vector<int> ranks)
    : clique_(std::move(clique)), ranks_(std::move(ranks)), edges_(ranks_.size(), nullptr) {}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Create(
    std::shared_ptr<Clique> clique, std::vector<int> ranks) {
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(clique), std::move(ranks)));
  MP_RETURN_IF_ERROR(made->Open());
  return made;
}

absl::Status NcclCommunicator::Open() {
  MP_ASSIGN_OR_RETURN(comms_, clique_->Split(ranks_));
  sync::MutexLock lock(clique_->launch());
  for (size_t peer = 0; peer < size(); ++peer) {
    CurrentDevice current(device(peer).ordinal());
    MP_RETURN_IF_ERROR(current.status());
    MP_RETURN_IF_ERROR(MP_CUDA(cudaEventCreateWithFlags(&edges_[peer], cudaEventDisableTiming)));
  }
  return absl::OkStatus();
}

NcclCommunicator::~NcclCommunicator() {
  sync::MutexLock lock(clique_->launch());
  for (const cudaEvent_t edge : edges_) {
    if (edge != nullptr) cudaEventDestroy(edge);
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Split(
    const std::vector<int>& peers) {
  std::vector<int> ranks;
  for (const int peer : peers) ranks.push_back(ranks_[static_cast<size_t>(peer)]);
  return Create(clique_, std::move(ranks));
}

// --- what it can do ------------------------------------------------------------------------------

absl::StatusOr<size_t> NcclCommunicator::OwnerOf(const void* data) const {
  cudaPointerAttributes found{};
  MP_RETURN_IF_ERROR(MP_CUDA(cudaPointerGetAttributes(&found, data)));
  if (found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged) {
    for (size_t peer = 0; peer < size(); ++peer) {
      if (device(peer).ordinal() == found.device) return peer;
    }
    return InvalidArgument("is memory of cuda ", found.device,
                           ", which is no device of the Region");
  }
  return InvalidArgument("is no memory of a GPU");
}

absl::Status NcclCommunicator::CheckMemory(absl::string_view what, const void* data, int peer,
                                           bool own) const {
  if (data == nullptr) return absl::OkStatus();
  const Device& here = device(static_cast<size_t>(peer));
  const absl::StatusOr<size_t> owner = OwnerOf(data);
  if (owner.ok() && (!own || &device(*owner) == &here)) return absl::OkStatus();
  return MakeError(owner.ok() ? ErrorKind::kInvalidArgument : KindOf(owner.status()),
                   absl::StrCat(what, " at ", absl::StrFormat("%p", data), " ",
                                owner.ok() ? absl::StrCat("is memory of ", device(*owner).name())
                                           : std::string(owner.status().message()),
                                "; the rank is on ", here.name()));
}

absl::Status NcclCommunicator::Inspect(const Descriptor& step, const Part& part, int peer) const {
  const bool reduces = step.kind == OpKind::kAllReduce;
  if (reduces) MP_RETURN_IF_ERROR(CheckReduction(step));
  if (!IsEmpty(step, part.input_extent)) {
    MP_RETURN_IF_ERROR(
        CheckMemory(absl::StrCat(OpKindName(step.kind), ": the input"), part.input, peer, reduces));
  }
  if (part.output == part.input || IsEmpty(step, part.output_extent)) return absl::OkStatus();
  return CheckMemory(absl::StrCat(OpKindName(step.kind), ": the output"), part.output, peer,
                     reduces && !step.shared_output);
}

// --- operations ----------------------------------------------------------------------------------

std::unique_ptr<Operation> NcclCommunicator::NewOperation(Retirer& retirer) {
  return std::make_unique<NcclOperation>(retirer, size());
}

bool NcclCommunicator::Enter(Operation& operation, int peer) {
  static_cast<NcclOperation&>(operation).Enter(static_cast<size_t>(peer));
  return false;
}

void NcclCommunicator::Drop(Operation& operation) {
  static_cast<NcclOperation&>(operation).Finish();
}

absl::Status NcclCommunicator::Issue(Operation& operation) {
  const absl::Status status = Enqueue(operation);
  static_cast<NcclOperation&>(operation).Finish();
  return status;
}

absl::Status NcclCommunicator::Enqueue(const Operation& operation) {
  sync::MutexLock lock(clique_->launch());
  MP_RETURN_IF_ERROR(clique_->CheckNotBroken());
  CurrentDevice current;
  MP_RETURN_IF_ERROR(current.status());
  for (size_t peer = 0; peer < size(); ++peer) {
    MP_RETURN_IF_ERROR(device(peer).TakeTurn(StreamOf(operation, peer)));
  }
  absl::Status status = EnqueueSteps(operation);
  // Also behind what has been enqueued of an operation that failed.
  for (size_t peer = 0; peer < size(); ++peer) {
    const absl::Status ended = device(peer).EndTurn(StreamOf(operation, peer));
    if (status.ok()) status = ended;
  }
  return status;
}

absl::Status NcclCommunicator::EnqueueSteps(const Operation& operation) {
  const std::vector<Descriptor>& steps = operation.steps;
  if (std::any_of(steps.begin(), steps.end(), UsesNccl)) {
    const absl::Status status = EnqueueReductions(operation);
    // Some ranks may have been launched and wait for ever for the others.
    if (!status.ok()) clique_->SetBroken(status);
    MP_RETURN_IF_ERROR(status);
  }
  absl::Status status;
  if (!std::all_of(steps.begin(), steps.end(), UsesNccl)) {
    status = EnqueueGathers(operation);
  } else if (std::any_of(steps.begin(), steps.end(), IsShared)) {
    status = Meet(operation);
  }
  // Nobody is ordered behind what has been enqueued, and whoever is told may free the memory.
  for (size_t peer = 0; !status.ok() && peer < size(); ++peer) {
    cudaStreamSynchronize(StreamOf(operation, peer).handle());
  }
  return status;
}

absl::Status NcclCommunicator::EnqueueReductions(const Operation& operation) {
  Reductions reductions;
  MP_RETURN_IF_ERROR(MP_CUDA(ncclGroupStart()));
  absl::Status status;
  for (int step = 0; step < operation.step_count(); ++step) {
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    if (!UsesNccl(what)) continue;
    for (size_t peer = 0; peer < size() && status.ok(); ++peer) {
      status = EnqueueReduction(what, operation.step_parts(step)[peer], peer,
                                StreamOf(operation, peer).handle(), reductions);
    }
  }
  const absl::Status end = MP_CUDA(ncclGroupEnd());
  return status.ok() ? end : status;
}

absl::Status NcclCommunicator::EnqueueReduction(const Descriptor& step, const Part& part,
                                                size_t peer, cudaStream_t stream,
                                                Reductions& reductions) {
  const ncclComm_t comm = (*comms_)[peer];
  const auto count = static_cast<size_t>(step.shape.elements());
  const ncclDataType_t type = NcclType(step.dtype);
  MP_ASSIGN_OR_RETURN(const ncclRedOp_t op, reductions.OpFor(step, comm));
  if (!step.shared_output) {
    return MP_CUDA(ncclAllReduce(part.input, part.output, count, type, op, comm, stream));
  }
  MP_ASSIGN_OR_RETURN(const size_t root, OwnerOf(part.output));
  return MP_CUDA(
      ncclReduce(part.input, part.output, count, type, op, static_cast<int>(root), comm, stream));
}

absl::Status NcclCommunicator::EnqueueGathers(const Operation& operation) {
  MP_RETURN_IF_ERROR(Meet(operation));
  bool to_all = false;
  std::vector<size_t> roots;
  for (int step = 0; step < operation.step_count(); ++step) {
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    if (what.kind != OpKind::kGather && what.kind != OpKind::kAllGather) continue;
    for (const Push& push : PlanGather(what, operation.step_parts(step))) {
      MP_RETURN_IF_ERROR(EnqueuePush(push, StreamOf(operation, static_cast<size_t>(push.source))));
    }
    to_all = to_all || what.kind == OpKind::kAllGather || IsShared(what);
    if (what.kind == OpKind::kGather) roots.push_back(static_cast<size_t>(what.root));
  }
  if (to_all) return Meet(operation);
  for (const size_t root : roots) {
    for (size_t peer = 0; peer < size(); ++peer) {
      if (peer != root) MP_RETURN_IF_ERROR(Arrow(operation, peer, root));
    }
  }
  return absl::OkStatus();
}

// What is queued on any stream from now on runs after what all streams hold.  By way of one of
// them: 2 (n - 1) waits and not n (n - 1).
absl::Status NcclCommunicator::Meet(const Operation& operation) {
  for (size_t peer = 1; peer < size(); ++peer) MP_RETURN_IF_ERROR(Arrow(operation, peer, 0));
  MP_RETURN_IF_ERROR(MP_CUDA(cudaEventRecord(edges_[0], StreamOf(operation, 0).handle())));
  for (size_t peer = 1; peer < size(); ++peer) {
    MP_RETURN_IF_ERROR(
        MP_CUDA(cudaStreamWaitEvent(StreamOf(operation, peer).handle(), edges_[0], 0)));
  }
  return absl::OkStatus();
}

// What is queued on `to` from now on runs after what `from` holds.
absl::Status NcclCommunicator::Arrow(const Operation& operation, size_t from, size_t to) {
  MP_RETURN_IF_ERROR(MP_CUDA(cudaEventRecord(edges_[from], StreamOf(operation, from).handle())));
  return MP_CUDA(cudaStreamWaitEvent(StreamOf(operation, to).handle(), edges_[from], 0));
}

}  // namespace mp::cuda
