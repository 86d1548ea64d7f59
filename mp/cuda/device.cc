#include "mp/cuda/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/cuda/capture_mode.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/kernels/copy.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/cuda/memory.h"
#include "mp/cuda/status.h"
#include "mp/cuda/stream.h"

namespace mp::cuda {

Device::Turn::~Turn() {
  if (event != nullptr) cudaEventDestroy(event);
}

Device::~Device() {
  const RelaxedCapture relaxed;
  warm_up_stream_.reset();
  if (warm_up_memory_ != nullptr && !abandoned_.load(sync::kAcquire)) cudaFree(warm_up_memory_);
}

absl::Status Device::Open(const std::vector<std::unique_ptr<Device>>& others) {
  const RelaxedCapture relaxed;
  CurrentDevice current(ordinal_);
  MP_RETURN_IF_ERROR(current.status());
  MP_RETURN_IF_ERROR(MP_CUDA(cudaMalloc(&warm_up_memory_, kWarmUpBytes)));
  MP_ASSIGN_OR_RETURN(warm_up_stream_, Stream::Create(ordinal_, clock_));
  MP_RETURN_IF_ERROR(MP_CUDA(LoadFolds()));
  MP_RETURN_IF_ERROR(MP_CUDA(LoadCopies()));
  for (const auto& other : others) {
    if (other->ordinal_ == ordinal_) turn_ = other->turn_;
  }
  if (turn_ != nullptr) return absl::OkStatus();
  turn_ = std::make_shared<Turn>();
  return MP_CUDA(cudaEventCreateWithFlags(&turn_->event, cudaEventDisableTiming));
}

absl::Status Device::TakeTurn(const Stream& stream) {
  if (turn_->last == nullptr || turn_->last == stream.tail()) return absl::OkStatus();
  MP_RETURN_IF_ERROR(RecordTurn());
  if (turn_->last == nullptr) return absl::OkStatus();
  return MP_CUDA(cudaStreamWaitEvent(stream.handle(), turn_->event, 0));
}

absl::Status Device::EndTurn(const Stream& stream) {
  turn_->last = stream.tail();
  turn_->recorded = turn_->users > 1;
  if (!turn_->recorded) return absl::OkStatus();
  return MP_CUDA(cudaEventRecord(turn_->event, stream.handle()));
}

absl::Status Device::RecordTurn() {
  if (turn_->last == nullptr || turn_->recorded) return absl::OkStatus();
  bool gone = false;
  {
    sync::MutexLock lock(turn_->last->mutex);
    const cudaStream_t handle = turn_->last->handle;
    gone = handle == nullptr;
    if (!gone) {
      cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
      MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamIsCapturing(handle, &capture)));
      if (capture != cudaStreamCaptureStatusNone) {
        return Unsupported("the application captures a stream of ", DoName(),
                           " that holds the last ",
                           "operation, for a graph of its own: nobody can wait for that now");
      }
      MP_RETURN_IF_ERROR(MP_CUDA(cudaEventRecord(turn_->event, handle)));
    }
  }
  turn_->recorded = !gone;
  if (gone) turn_->last.reset();
  return absl::OkStatus();
}

std::string Device::DoName() const { return absl::StrCat("cuda ", ordinal_); }

bool Device::reaches(const Device& peer) const {
  return peer.ordinal_ == ordinal_ ||
         std::find(reached_.begin(), reached_.end(), peer.ordinal_) != reached_.end();
}

absl::Status Device::ReachPeer(const Device& peer) {
  if (reaches(peer)) return absl::OkStatus();
  int can = 0;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaDeviceCanAccessPeer(&can, ordinal_, peer.ordinal_)));
  if (can == 0) return absl::OkStatus();
  CurrentDevice current(ordinal_);
  MP_RETURN_IF_ERROR(current.status());
  const RelaxedCapture relaxed;
  const cudaError_t result = cudaDeviceEnablePeerAccess(peer.ordinal_, 0);
  if (result == cudaErrorPeerAccessAlreadyEnabled) {
    Forgive(result);
  } else {
    MP_RETURN_IF_ERROR(ToStatus(
        result, absl::StrCat("cudaDeviceEnablePeerAccess from ", DoName(), " to ", peer.DoName())));
  }
  reached_.push_back(peer.ordinal_);
  return absl::OkStatus();
}

absl::Status Device::CheckNotAbandoned() const {
  if (!abandoned_.load(sync::kAcquire)) return absl::OkStatus();
  return MakeError(ErrorKind::kDeviceLost,
                   absl::StrCat("what runs on ", DoName(), " does not end: restart the process"));
}

absl::StatusOr<void*> Device::DoAllocate(int64_t bytes) {
  MP_RETURN_IF_ERROR(CheckNotAbandoned());
  if (bytes == 0) return nullptr;
  sync::MutexLock lock(launch_);
  const RelaxedCapture relaxed;
  CurrentDevice current(ordinal_);
  MP_RETURN_IF_ERROR(current.status());
  void* data = nullptr;
  MP_RETURN_IF_ERROR(ToStatus(cudaMalloc(&data, static_cast<size_t>(bytes)),
                              absl::StrCat("cudaMalloc of ", bytes, " bytes on ", DoName())));
  Allocations::All().Add(data, static_cast<size_t>(bytes), ordinal_);
  return data;
}

void Device::DoFree(void* data) {
  // CUDA would wait for what runs there.
  if (data == nullptr || abandoned_.load(sync::kAcquire)) return;
  sync::MutexLock lock(launch_);
  const RelaxedCapture relaxed;
  CurrentDevice current(ordinal_);
  Allocations::All().Remove(data);
  cudaFree(data);
}

absl::StatusOr<std::unique_ptr<mp::Stream>> Device::DoNewStream() {
  MP_RETURN_IF_ERROR(CheckNotAbandoned());
  sync::MutexLock lock(launch_);
  const RelaxedCapture relaxed;
  return Stream::Create(ordinal_, clock_);
}

absl::StatusOr<std::unique_ptr<mp::Stream>> Device::Wrap(cudaStream_t stream) {
  sync::MutexLock lock(launch_);
  const RelaxedCapture relaxed;
  MP_ASSIGN_OR_RETURN(std::unique_ptr<Stream> wrapped, Stream::Wrap(ordinal_, clock_, stream));
  wrapped->set_watch(watch());
  return wrapped;
}

absl::Status Device::DoBindThisThread() { return MP_CUDA(cudaSetDevice(ordinal_)); }

}  // namespace mp::cuda
