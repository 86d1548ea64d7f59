#include "mp/cuda/stream.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mp/base/check.h"
#include "mp/base/status.h"
#include "mp/cuda/capture_mode.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/cuda/status.h"

namespace mp::cuda {
namespace {

// Events made with the stream, so that a steady state makes none.
constexpr int kFirstEvents = 16;

// One mark for so many operations, if nobody wants more.
constexpr int kOperationsPerMark = 16;

// A waiting thread looks all the time at first, then ever more seldom.
constexpr absl::Duration kSpin = absl::Microseconds(50);
constexpr absl::Duration kShortestSleep = absl::Microseconds(20);
constexpr absl::Duration kLongestSleep = absl::Milliseconds(1);
// And asks at least so often whether what it waits for can still come.
constexpr absl::Duration kWatchInterval = absl::Milliseconds(20);

absl::StatusOr<cudaEvent_t> NewEvent(int ordinal) {
  CurrentDevice current(ordinal);
  MP_RETURN_IF_ERROR(current.status());
  cudaEvent_t event = nullptr;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
  return event;
}

// The pauses of a thread that polls for something on `stream`.
class Pauses {
 public:
  Pauses(sync::Clock& clock, mp::Stream& stream, StallWatch* watch, absl::Duration timeout)
      : clock_(clock), stream_(stream), watch_(watch), timeout_(timeout), start_(clock.Now()) {}

  // False where the timeout has passed.
  bool Next() {
    const absl::Duration waited = clock_.Now() - start_;
    if (waited >= timeout_) return false;
    if (waited < kSpin) {
      sync::Yield();
      return true;
    }
    if (watch_ != nullptr && waited >= next_watch_) {
      next_watch_ = waited + std::min(watch_->OnStall(stream_, waited), kWatchInterval);
    }
    clock_.Wait(never_, 0, std::min(sleep_, timeout_ - waited));
    sleep_ = std::min(2 * sleep_, kLongestSleep);
    return true;
  }

 private:
  sync::Clock& clock_;
  mp::Stream& stream_;
  StallWatch* const watch_;
  const absl::Duration timeout_;
  const absl::Duration start_;
  absl::Duration next_watch_ = absl::ZeroDuration();
  absl::Duration sleep_ = kShortestSleep;
  sync::Atomic<uint32_t> never_{0};
};

}  // namespace

Stream::Stream(int ordinal, sync::Clock& clock, cudaStream_t handle, Owner owner)
    : ordinal_(ordinal), clock_(clock), handle_(handle), owner_(owner) {
  tail_->handle = handle;
}

absl::Status Stream::MakeEvents(int count) {
  for (int i = 0; i < count; ++i) {
    MP_ASSIGN_OR_RETURN(const cudaEvent_t event, NewEvent(ordinal_));
    free_.push_back(event);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create(int ordinal, sync::Clock& clock) {
  CurrentDevice current(ordinal);
  MP_RETURN_IF_ERROR(current.status());
  cudaStream_t handle = nullptr;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)));
  std::unique_ptr<Stream> stream(new Stream(ordinal, clock, handle, Owner::kSelf));
  MP_RETURN_IF_ERROR(stream->MakeEvents(kFirstEvents));
  return stream;
}

absl::StatusOr<std::unique_ptr<Stream>> Stream::Wrap(int ordinal, sync::Clock& clock,
                                                     cudaStream_t handle) {
  CurrentDevice current(ordinal);
  MP_RETURN_IF_ERROR(current.status());
  // A null handle is the legacy default stream, which has a name as well.
  if (handle == nullptr) handle = cudaStreamLegacy;
  std::unique_ptr<Stream> stream(new Stream(ordinal, clock, handle, Owner::kCaller));
  MP_RETURN_IF_ERROR(stream->MakeEvents(1));
  const cudaError_t recorded = cudaEventRecord(stream->free_[0], handle);
  if (recorded == cudaErrorInvalidResourceHandle) {
    Forgive(recorded);
    return InvalidArgument("WrapStream: the stream is not of cuda ", ordinal);
  }
  MP_RETURN_IF_ERROR(ToStatus(recorded, "cudaEventRecord in a stream to be wrapped"));
  return stream;
}

Stream::~Stream() {
  if (!maker().is_this()) return;
  if (owner_ == Owner::kSelf) {
    set_watch(nullptr);  // what is queued has been issued, and the caller may hold the World's lock
    static_cast<void>(DoBlock(DoRecord().position, absl::InfiniteDuration()));
  }
  {
    sync::MutexLock lock(tail_->mutex);
    tail_->handle = nullptr;
  }
  for (size_t i = 0; i < marks_.size(); ++i) {
    if (marks_[i].event != nullptr) cudaEventDestroy(marks_[i].event);
  }
  for (const cudaEvent_t event : free_) cudaEventDestroy(event);
  if (owner_ == Owner::kSelf) cudaStreamDestroy(handle_);
}

// --- marks ---------------------------------------------------------------------------------------

mp::Event Stream::DoRecord() {
  absl::Status status;
  uint64_t position = 0;
  {
    sync::MutexLock lock(mutex_);
    // Behind an open mark nothing can be queued yet: whoever asks waits for that one.
    if (marks_.empty() || marks_.back().state == Mark::kRecorded) {
      marks_.Push(Mark());
      status = RecordAt(marks_.back());
    }
    marks_.back().wanted = true;
    position = last();
  }
  if (!status.ok()) Report(ToFailure(status));
  return {this, position};
}

uint64_t Stream::Open() {
  sync::MutexLock lock(mutex_);
  marks_.Push(Mark());
  return last();
}

void Stream::Close(uint64_t position) {
  absl::Status status;
  {
    sync::MutexLock lock(mutex_);
    Mark& mark = MarkAt(position);
    MP_CHECK(mark.state == Mark::kOpen);
    mark.state = Mark::kClosed;
    operations_until_ = position;
    if (position == last() && !mark.wanted && ++unmarked_ < kOperationsPerMark) {
      marks_.PopBack();
      return;
    }
    unmarked_ = 0;
    for (size_t i = 0; i < marks_.size(); ++i) {
      Mark& next = marks_[i];
      if (next.state == Mark::kOpen) break;
      if (next.state == Mark::kClosed && status.ok()) status = RecordAt(next);
    }
  }
  if (!status.ok()) Report(ToFailure(status));
}

Stream::Mark& Stream::MarkAt(uint64_t position) {
  const uint64_t passed = passed_.load(sync::kRelaxed);
  MP_CHECK(position > passed && position <= last());
  return marks_[position - passed - 1];
}

// Where CUDA refuses, the mark has no event and passes as soon as somebody looks.
absl::Status Stream::RecordAt(Mark& mark) {
  mark.state = Mark::kRecorded;
  MP_RETURN_IF_ERROR(DoCheckRoom());
  MP_ASSIGN_OR_RETURN(const cudaEvent_t event, FreeEvent());
  const absl::Status status = MP_CUDA(cudaEventRecord(event, handle_));
  if (status.ok()) {
    mark.event = event;
  } else {
    free_.push_back(event);
  }
  return status;
}

absl::StatusOr<cudaEvent_t> Stream::FreeEvent() {
  const RelaxedCapture relaxed;
  // Nobody may ever ask about old marks, so they are looked after here.
  while (free_.empty() && marks_.front().event != nullptr) {
    const cudaError_t result = cudaEventQuery(marks_.front().event);
    Forgive(result);  // "not ready" is an answer
    if (result != cudaSuccess) break;
    Retire(passed_.load(sync::kRelaxed) + 1);
  }
  if (free_.empty()) return NewEvent(ordinal_);
  const cudaEvent_t event = free_.back();
  free_.pop_back();
  return event;
}

void Stream::Retire(uint64_t position) {
  uint64_t passed = passed_.load(sync::kRelaxed);
  for (; passed < position; ++passed) {
    const Mark mark = marks_.Pop();
    if (mark.event != nullptr) free_.push_back(mark.event);
  }
  passed_.store(passed, sync::kRelease);
}

// --- waiting -------------------------------------------------------------------------------------

absl::StatusOr<bool> Stream::Poll(uint64_t position) {
  cudaEvent_t event;
  {
    sync::MutexLock lock(mutex_);
    if (Passed(position)) return true;
    const Mark& mark = MarkAt(position);
    if (mark.state != Mark::kRecorded) return false;
    event = mark.event;
  }
  // Without the lock: posting takes it, under the Order's.  If the mark passes and its event is
  // used again meanwhile, the answer does not count.
  cudaError_t result = cudaSuccess;
  if (event != nullptr) {
    const RelaxedCapture relaxed;
    result = cudaEventQuery(event);
  }
  if (result == cudaErrorNotReady) {
    Forgive(result);
    return Passed(position);
  }
  sync::MutexLock lock(mutex_);
  if (Passed(position)) return true;
  Retire(position);
  if (result == cudaSuccess) return true;
  return ToStatus(result, absl::StrCat("cudaEventQuery on cuda ", ordinal_));
}

bool Stream::DoQuery(uint64_t position) const {
  if (Passed(position)) return true;
  // Asking CUDA moves the marks along and may find an error to keep.
  Stream& self = const_cast<Stream&>(*this);
  const absl::StatusOr<bool> passed = self.Poll(position);
  if (!passed.ok()) self.Report(ToFailure(passed.status()));
  return passed.ok() ? *passed : true;
}

// A mark that was taken back has given its number to the next one, which is behind it.
bool Stream::DoHasPassed(uint64_t position) {
  if (!mutex_.TryLock()) return Passed(position);  // the holder may wait for room in the stream
  cudaEvent_t event = nullptr;
  if (!Passed(position) && position <= last() && MarkAt(position).state == Mark::kRecorded) {
    event = MarkAt(position).event;
  }
  mutex_.Unlock();
  if (Passed(position)) return true;
  if (event == nullptr) return false;
  const RelaxedCapture relaxed;
  // An event that is used again has passed before.
  const cudaError_t result = cudaEventQuery(event);
  if (result != cudaSuccess) cudaGetLastError();
  return result == cudaSuccess || Passed(position);
}

absl::StatusOr<bool> Stream::DoBlock(uint64_t position, absl::Duration timeout) {
  Pauses pauses(clock_, *this, watch(), timeout);
  while (!DoQuery(position)) {
    MP_RETURN_IF_ERROR(CheckNotAbandoned());
    if (!pauses.Next()) return false;
  }
  return true;
}

// Marks that nobody asks about pass unseen: it asks about them.
std::optional<uint64_t> Stream::DoProgress() {
  while (true) {
    uint64_t passed = 0;
    {
      sync::MutexLock lock(mutex_);
      passed = passed_.load(sync::kRelaxed);
      if (passed >= operations_until_ || marks_.empty()) return std::nullopt;
      if (marks_.front().state != Mark::kRecorded) return std::nullopt;
    }
    if (!DoQuery(passed + 1)) return passed;
  }
}

absl::StatusOr<bool> Stream::Hold(cudaStream_t handle, uint64_t position) {
  // Under the lock the event cannot pass and be recorded anew before its record is captured.
  sync::MutexLock lock(mutex_);
  if (Passed(position)) return true;
  const Mark& mark = MarkAt(position);
  if (mark.state != Mark::kRecorded) return false;
  if (mark.event != nullptr)
    MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamWaitEvent(handle, mark.event, 0)));
  return true;
}

absl::Status Stream::DoWait(const mp::Event& event) {
  if (event.stream->native().handle == nullptr) {
    return Unsupported("a CUDA stream cannot wait for an event of another backend");
  }
  MP_RETURN_IF_ERROR(DoCheckRoom());
  Stream& other = Of(*event.stream);
  Pauses pauses(clock_, other, other.watch(), absl::InfiniteDuration());
  while (true) {
    MP_ASSIGN_OR_RETURN(const bool held, other.Hold(handle_, event.position));
    if (held) return absl::OkStatus();
    pauses.Next();
  }
}

// Where CUDA does not answer, whoever calls something else is told.
absl::Status Stream::DoCheckRoom() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t result = cudaStreamIsCapturing(handle_, &status);
  Forgive(result);
  if (result != cudaSuccess || status == cudaStreamCaptureStatusNone) return absl::OkStatus();
  return Unsupported("the application captures ", name(),
                     " for a graph of its own, which takes neither operations nor marks of mp; ",
                     "Region::Capture makes graphs that do");
}

// --- work ----------------------------------------------------------------------------------------

absl::Status Stream::DoLaunch(Kernel kernel) {
  CurrentDevice current(ordinal_);
  MP_RETURN_IF_ERROR(current.status());
  try {
    return kernel.LaunchOn(native());
  } catch (const std::exception& error) {
    return MakeError(ErrorKind::kUserException,
                     absl::StrCat("a kernel has thrown: ", error.what()));
  } catch (...) {
    return MakeError(ErrorKind::kUserException,
                     "a kernel has thrown something that is no std::exception");
  }
}

absl::Status Stream::DoCopy(const TensorView& source, const TensorView& target) {
  if (source.size_bytes() == 0 || source.data() == target.data()) return absl::OkStatus();
  if (source.is_dense() && target.is_dense()) {
    return MP_CUDA(cudaMemcpyAsync(target.data(), source.data(),
                                   static_cast<size_t>(source.size_bytes()), cudaMemcpyDefault,
                                   handle_));
  }
  const auto from_pitch = static_cast<size_t>(source.row_pitch());
  const auto to_pitch = static_cast<size_t>(target.row_pitch());
  const auto width = static_cast<size_t>(source.row_bytes());
  const auto rows = static_cast<size_t>(source.rows());
  if (std::max(from_pitch, to_pitch) <= kLongestPitch) {
    return MP_CUDA(cudaMemcpy2DAsync(target.data(), to_pitch, source.data(), from_pitch, width,
                                     rows, cudaMemcpyDefault, handle_));
  }
  const auto* from = static_cast<const std::byte*>(source.data());
  auto* to = static_cast<std::byte*>(target.data());
  for (size_t row = 0; row < rows; ++row, from += from_pitch, to += to_pitch) {
    MP_RETURN_IF_ERROR(MP_CUDA(cudaMemcpyAsync(to, from, width, cudaMemcpyDefault, handle_)));
  }
  return absl::OkStatus();
}

absl::Status Stream::DoScale(const TensorView& source, const TensorView& target, double factor) {
  if (factor == 1.0) return DoCopy(source, target);
  CurrentDevice current(ordinal_);
  MP_RETURN_IF_ERROR(current.status());
  return MP_CUDA(LaunchScale(source.dtype(), source.data(), target.data(),
                             source.shape().elements(), factor, handle_));
}

}  // namespace mp::cuda
