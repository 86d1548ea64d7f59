#include "mp/cuda/clique.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "mp/cuda/capture_mode.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/status.h"

namespace mp::cuda {
namespace {

// How long an abort waits for a thread that launches.
constexpr absl::Duration kPatience = absl::Seconds(2);

// NCCL frees a communicator when all of its siblings have been told.
void EndTogether(const std::vector<ncclComm_t>& comms, ncclResult_t (*end)(ncclComm_t)) {
  if (comms.empty()) return;
  const bool grouped = ncclGroupStart() == ncclSuccess;
  for (const ncclComm_t comm : comms) end(comm);
  if (grouped) ncclGroupEnd();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Clique>> Clique::Create(std::vector<Device*> devices, bool uses_nccl,
                                                       sync::Mutex& launch, sync::Clock& clock) {
  std::shared_ptr<Clique> clique(new Clique(std::move(devices), uses_nccl, launch, clock));
  if (!uses_nccl) return clique;
  sync::MutexLock lock(launch);
  MP_RETURN_IF_ERROR(clique->Open());
  return clique;
}

absl::Status Clique::Open() {
  const RelaxedCapture relaxed;
  CurrentDevice current;
  MP_RETURN_IF_ERROR(current.status());
  std::vector<int> ordinals;
  for (const Device* device : devices_) ordinals.push_back(device->ordinal());
  Comms comms(devices_.size(), nullptr);
  MP_RETURN_IF_ERROR(
      MP_CUDA(ncclCommInitAll(comms.data(), static_cast<int>(ordinals.size()), ordinals.data())));
  whole_ = std::move(comms);
  for (Device* device : devices_) device->AddUser();
  sync::MutexLock lock(mutex_);
  watched_ = whole_;
  return absl::OkStatus();
}

// --- splits --------------------------------------------------------------------------------------

absl::StatusOr<const Clique::Comms*> Clique::Split(const std::vector<int>& ranks) {
  sync::MutexLock lock(launch_);
  const RelaxedCapture relaxed;
  MP_RETURN_IF_ERROR(CheckNotBroken());
  if (!uses_nccl_) return &whole_;
  const auto found = splits_.find(ranks);
  if (found != splits_.end()) return &found->second;
  MP_ASSIGN_OR_RETURN(Comms comms, NewSplit(ranks));
  return &splits_.emplace(ranks, std::move(comms)).first->second;
}

absl::StatusOr<Clique::Comms> Clique::NewSplit(const std::vector<int>& ranks) {
  CurrentDevice current;
  MP_RETURN_IF_ERROR(current.status());
  Comms made(devices_.size(), nullptr);  // by rank of the World
  MP_RETURN_IF_ERROR(MP_CUDA(ncclGroupStart()));
  absl::Status status;
  for (size_t rank = 0; rank < devices_.size(); ++rank) {
    const auto at = std::find(ranks.begin(), ranks.end(), static_cast<int>(rank));
    const int color = at == ranks.end() ? NCCL_SPLIT_NOCOLOR : 0;
    const int key = static_cast<int>(at - ranks.begin());
    const absl::Status split =
        MP_CUDA(ncclCommSplit(whole_[rank], color, key, &made[rank], nullptr));
    if (status.ok()) status = split;
  }
  const absl::Status end = MP_CUDA(ncclGroupEnd());
  if (status.ok()) status = end;
  Comms comms;
  for (const int rank : ranks) comms.push_back(made[static_cast<size_t>(rank)]);
  if (status.ok()) status = WarmUp(comms, ranks);
  sync::MutexLock lock(mutex_);
  // Where some are made and others are not, all that can be done is to abort them.
  for (const ncclComm_t comm : comms) {
    if (comm != nullptr) watched_.push_back(comm);
  }
  if (!status.ok() && !failure_.failed()) failure_ = ToFailure(status);
  MP_RETURN_IF_ERROR(status);
  return comms;
}

// Small sums and large ones, which NCCL carries out in different ways.
absl::Status Clique::WarmUp(const Comms& comms, const std::vector<int>& ranks) {
  std::vector<Device*> members;
  for (const int rank : ranks) members.push_back(devices_[static_cast<size_t>(rank)]);
  for (Device* member : members) MP_RETURN_IF_ERROR(member->TakeTurn(member->warm_up_stream()));
  for (const size_t count : {size_t{1}, Device::kWarmUpBytes / sizeof(float)}) {
    MP_RETURN_IF_ERROR(MP_CUDA(ncclGroupStart()));
    absl::Status status;
    for (size_t peer = 0; peer < comms.size(); ++peer) {
      const Device& member = *members[peer];
      const absl::Status reduced = MP_CUDA(
          ncclAllReduce(member.warm_up_memory(), member.warm_up_memory(), count, ncclFloat32,
                        ncclSum, comms[peer], member.warm_up_stream().handle()));
      if (status.ok()) status = reduced;
    }
    const absl::Status end = MP_CUDA(ncclGroupEnd());
    if (status.ok()) status = end;
    MP_RETURN_IF_ERROR(status);
  }
  for (Device* member : members) {
    MP_RETURN_IF_ERROR(member->EndTurn(member->warm_up_stream()));
    MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamSynchronize(member->warm_up_stream().handle())));
  }
  return absl::OkStatus();
}

// --- the end -------------------------------------------------------------------------------------

void Clique::SetBroken(const absl::Status& status) {
  sync::MutexLock lock(mutex_);
  if (!failure_.failed()) failure_ = ToFailure(status);
}

absl::Status Clique::CheckNotBroken() {
  sync::MutexLock lock(mutex_);
  if (!failure_.failed()) failure_ = ToFailure(CheckNotLost());
  return failure_.ToStatus();
}

absl::Status Clique::Health() {
  sync::MutexLock lock(mutex_);
  // Of whatever device: what the others' streams hold may wait for it for ever.
  if (!failure_.failed()) failure_ = ToFailure(CheckNotLost());
  const CurrentDevice current;  // NCCL may leave another one
  for (const ncclComm_t comm : watched_) {
    if (failure_.failed()) break;
    ncclResult_t state = ncclSuccess;
    absl::Status status = MP_CUDA(ncclCommGetAsyncError(comm, &state));
    if (status.ok()) status = ToStatus(state, "an operation that NCCL had taken");
    if (!status.ok()) failure_ = ToFailure(status);
  }
  return failure_.ToStatus();
}

bool Clique::LockLaunch() {
  const absl::Duration end = clock_.Now() + kPatience;
  sync::Atomic<uint32_t> never{0};
  while (!launch_.TryLock()) {
    if (clock_.Now() >= end) return false;
    clock_.Wait(never, 0, absl::Milliseconds(1));
  }
  return true;
}

void Clique::Abort() {
  std::vector<ncclComm_t> comms;
  if (!LockLaunch()) {
    return SetBroken(MakeError(ErrorKind::kDeviceError, "a launch does not come back"));
  }
  {
    sync::MutexLock lock(mutex_);
    comms = std::exchange(watched_, {});
    if (!failure_.failed()) {
      failure_ = {ErrorKind::kClosed, "the communicators of the World were aborted"};
    }
  }
  CurrentDevice current;
  {
    const RelaxedCapture relaxed;
    // What is running goes on until the communicators are aborted.
    for (std::vector<cudaGraphExec_t>* graphs : graphs_) {
      for (const cudaGraphExec_t graph : *graphs) cudaGraphExecDestroy(graph);
      graphs->clear();
    }
    EndTogether(comms, ncclCommAbort);
  }
  launch_.Unlock();
}

Clique::~Clique() {
  sync::MutexLock lock(launch_);
  const RelaxedCapture relaxed;
  CurrentDevice current;
  for (size_t i = 0; i < whole_.size(); ++i) devices_[i]->RemoveUser();  // where there is NCCL
  EndTogether(watched_, failure_.failed() ? ncclCommAbort : ncclCommDestroy);
}

}  // namespace mp::cuda
