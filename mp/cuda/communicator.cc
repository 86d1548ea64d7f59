#include "mp/cuda/communicator.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "mp/cuda/current_device.h"
#include "mp/cuda/gather.h"
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

std::optional<ncclDataType_t> NcclType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI8:
      return ncclInt8;
    case DType::kU8:
      return ncclUint8;
    case DType::kI32:
      return ncclInt32;
    case DType::kU32:
      return ncclUint32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU64:
      return ncclUint64;
    default:
      return std::nullopt;
  }
}

std::optional<ncclRedOp_t> NcclOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kProd:
      return ncclProd;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kAvg:
      return std::nullopt;  // a sum and one division, which needs a kernel of ours
  }
  return std::nullopt;
}

bool UsesNccl(const Descriptor& step) {
  return step.kind == OpKind::kAllReduce && step.shape.elements() > 0;
}

Stream& StreamOf(const Operation& operation, size_t peer) {
  return Stream::Of(*operation.streams[peer]);
}

absl::Status EnqueuePush(const Push& push, const Stream& stream, int target) {
  const auto side = [&push](const Push::Side& it) {
    return cudaPitchedPtr{it.data, it.pitch, push.width, it.rows};
  };
  if (push.source == push.target) {
    cudaMemcpy3DParms copy{};
    copy.srcPtr = side(push.from);
    copy.dstPtr = side(push.to);
    copy.extent = {push.width, push.height, push.depth};
    copy.kind = cudaMemcpyDeviceToDevice;
    return MP_CUDA(cudaMemcpy3DAsync(&copy, stream.handle()));
  }
  cudaMemcpy3DPeerParms copy{};
  copy.srcPtr = side(push.from);
  copy.srcDevice = stream.ordinal();
  copy.dstPtr = side(push.to);
  copy.dstDevice = target;
  copy.extent = {push.width, push.height, push.depth};
  return MP_CUDA(cudaMemcpy3DPeerAsync(&copy, stream.handle()));
}

absl::Status CheckSupported(const Descriptor& step) {
  if (step.kind != OpKind::kAllReduce) return absl::OkStatus();
  if (!NcclType(step.dtype) || !NcclOp(step.reduce_op) || step.scale != 1.0 || step.shared_output) {
    return Unsupported("AllReduce of ", DTypeName(step.dtype), " with ",
                       ReduceOpName(step.reduce_op), ", scale ", step.scale,
                       step.shared_output ? ", shared output" : "", " over NCCL");
  }
  return absl::OkStatus();
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::vector<Device*> devices, sync::Mutex& launch)
    : devices_(std::move(devices)),
      launch_(launch),
      comms_(devices_.size(), nullptr),
      edges_(devices_.size(), nullptr) {}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Create(std::vector<Device*> devices,
                                                                       sync::Mutex& launch) {
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t k = i + 1; k < devices.size(); ++k) {
      if (devices[i] != devices[k]) continue;
      return InvalidArgument(devices[i]->name(), " is named for ranks ", i, " and ", k,
                             ": NCCL takes one rank on a device");
    }
  }
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(devices), launch));
  MP_RETURN_IF_ERROR(made->Open());
  return made;
}

absl::Status NcclCommunicator::Open() {
  sync::MutexLock lock(launch_);
  std::vector<int> ordinals;
  for (size_t peer = 0; peer < size(); ++peer) {
    ordinals.push_back(devices_[peer]->ordinal());
    CurrentDevice current(ordinals.back());
    MP_RETURN_IF_ERROR(current.status());
    MP_RETURN_IF_ERROR(MP_CUDA(cudaEventCreateWithFlags(&edges_[peer], cudaEventDisableTiming)));
  }
  CurrentDevice current;
  MP_RETURN_IF_ERROR(current.status());
  return MP_CUDA(
      ncclCommInitAll(comms_.data(), static_cast<int>(ordinals.size()), ordinals.data()));
}

NcclCommunicator::~NcclCommunicator() {
  sync::MutexLock lock(launch_);
  CurrentDevice current;
  for (const ncclComm_t comm : comms_) {
    if (comm != nullptr) ncclCommDestroy(comm);
  }
  for (const cudaEvent_t edge : edges_) {
    if (edge != nullptr) cudaEventDestroy(edge);
  }
}

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
  absl::Status status;
  for (const Descriptor& step : operation.steps) {
    if (status.ok()) status = CheckSupported(step);
  }
  if (status.ok()) status = Enqueue(operation);
  static_cast<NcclOperation&>(operation).Finish();
  return status;
}

absl::Status NcclCommunicator::Enqueue(const Operation& operation) {
  sync::MutexLock lock(launch_);
  MP_RETURN_IF_ERROR(failure_.ToStatus());
  CurrentDevice current;
  MP_RETURN_IF_ERROR(current.status());
  for (size_t peer = 0; peer < size(); ++peer) {
    MP_RETURN_IF_ERROR(devices_[peer]->TakeTurn(StreamOf(operation, peer)));
  }
  MP_RETURN_IF_ERROR(EnqueueReductions(operation));
  MP_RETURN_IF_ERROR(EnqueueGathers(operation));
  for (size_t peer = 0; peer < size(); ++peer) {
    MP_RETURN_IF_ERROR(devices_[peer]->EndTurn(StreamOf(operation, peer)));
  }
  return absl::OkStatus();
}

absl::Status NcclCommunicator::EnqueueReductions(const Operation& operation) {
  if (std::none_of(operation.steps.begin(), operation.steps.end(), UsesNccl)) {
    return absl::OkStatus();
  }
  MP_RETURN_IF_ERROR(MP_CUDA(ncclGroupStart()));
  absl::Status status;
  for (int step = 0; step < operation.step_count(); ++step) {
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    if (!UsesNccl(what)) continue;
    const auto count = static_cast<size_t>(what.shape.elements());
    for (size_t peer = 0; peer < size() && status.ok(); ++peer) {
      const Part& part = operation.step_parts(step)[peer];
      status = MP_CUDA(ncclAllReduce(part.input, part.output, count, *NcclType(what.dtype),
                                     *NcclOp(what.reduce_op), comms_[peer],
                                     StreamOf(operation, peer).handle()));
    }
  }
  const absl::Status end = MP_CUDA(ncclGroupEnd());
  if (status.ok()) status = end;
  if (!status.ok()) {
    failure_ = ToFailure(status);
    AbortAll();
  }
  return status;
}

absl::Status NcclCommunicator::EnqueueGathers(const Operation& operation) {
  if (std::all_of(operation.steps.begin(), operation.steps.end(), UsesNccl)) {
    return absl::OkStatus();
  }
  MP_RETURN_IF_ERROR(Meet(operation));
  bool to_all = false;
  std::vector<size_t> roots;
  for (int step = 0; step < operation.step_count(); ++step) {
    const Descriptor& what = operation.steps[static_cast<size_t>(step)];
    if (what.kind != OpKind::kGather && what.kind != OpKind::kAllGather) continue;
    for (const Push& push : PlanGather(what, operation.step_parts(step))) {
      MP_RETURN_IF_ERROR(EnqueuePush(push, StreamOf(operation, static_cast<size_t>(push.source)),
                                     devices_[static_cast<size_t>(push.target)]->ordinal()));
    }
    to_all = to_all || what.kind == OpKind::kAllGather;
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

// All together: the resources of one are freed only when its siblings are told too.
void NcclCommunicator::AbortAll() {
  for (ncclComm_t& comm : comms_) {
    if (comm != nullptr) ncclCommAbort(comm);
    comm = nullptr;
  }
}

}  // namespace mp::cuda
