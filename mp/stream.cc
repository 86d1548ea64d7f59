#include "mp/stream.h"

#include "mp/callback.h"
#include "mp/recording.h"
#include "mp/wait.h"

namespace mp {
namespace {

absl::Status CheckTimeout(absl::Duration timeout) {
  if (timeout < absl::ZeroDuration()) {
    return InvalidArgument("timeout ", absl::FormatDuration(timeout), ": must not be negative");
  }
  return absl::OkStatus();
}

absl::Status TimedOut(absl::Duration timeout) {
  return absl::DeadlineExceededError(
      absl::StrCat("still waiting after ", absl::FormatDuration(timeout)));
}

absl::Status CheckSame(const TensorView& source, const TensorView& target) {
  MP_RETURN_IF_ERROR(source.Check("source"));
  MP_RETURN_IF_ERROR(target.Check("target"));
  if (source.dtype() != target.dtype() || source.shape() != target.shape()) {
    return InvalidArgument("source ", source.ToString(), " and target ", target.ToString(),
                           " must be of one dtype and shape");
  }
  return absl::OkStatus();
}

// What is recorded runs when it is launched: nobody can wait for it before.
absl::Status Waited(const Stream& stream) {
  const absl::Status status = UsageError(
      stream.name(), ": a thread that records it for a graph, or that asks for what was recorded, ",
      "cannot wait for it");
  return stream.recording() == nullptr ? status : stream.recording()->Refuse(status);
}

// Tells a capture of a call that it does not take.
absl::Status Told(Recording* recording, absl::Status status) {
  return recording == nullptr || status.ok() ? status : recording->Refuse(status);
}

}  // namespace

bool Event::Done() const {
  if (stream != nullptr && !stream->maker_.is_this()) return true;  // nothing comes any more
  return recording == 0 && (stream == nullptr || stream->DoQuery(position));
}

absl::Status Event::Synchronize(absl::Duration timeout) const {
  if (stream != nullptr) MP_RETURN_IF_ERROR(stream->maker_.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("Event::Synchronize"));
  MP_RETURN_IF_ERROR(CheckTimeout(timeout));
  if (recording != 0 || (stream != nullptr && stream->recording() != nullptr)) {
    return Waited(*stream);
  }
  if (Done()) return absl::OkStatus();
  mp::Wait wait(*stream, position, timeout == absl::InfiniteDuration());
  MP_ASSIGN_OR_RETURN(const bool passed, stream->DoBlock(position, timeout));
  return passed ? absl::OkStatus() : TimedOut(timeout);
}

absl::Status Stream::Copy(const TensorView& source, const TensorView& target) {
  MP_RETURN_IF_ERROR(maker_.Check());
  MP_RETURN_IF_ERROR(Told(recording(), CheckSame(source, target)));
  const auto* from = static_cast<const char*>(source.data());
  const auto* to = static_cast<const char*>(target.data());
  const bool same_rows = source.row_pitch() == target.row_pitch() || source.rows() <= 1;
  if ((from == to && same_rows) || source.size_bytes() == 0) return absl::OkStatus();
  if (from < to + target.extent_bytes() && to < from + source.extent_bytes()) {
    return Told(recording(), InvalidArgument("copy of ", source.ToString(), " to ",
                                             target.ToString(), ": their memory overlaps"));
  }
  if (recording() == nullptr) return DoCopy(source, target);
  return recording()->Add({.kind = RecordedItem::Kind::kCopy, .source = source, .target = target});
}

absl::Status Stream::Scale(const TensorView& source, const TensorView& target, double factor) {
  MP_RETURN_IF_ERROR(maker_.Check());
  MP_RETURN_IF_ERROR(Told(recording(), CheckSame(source, target)));
  if (!IsReducibleFloat(source.dtype()) || !source.is_dense() || !target.is_dense()) {
    return Told(recording(),
                InvalidArgument("scaling of ", source.ToString(), " to ", target.ToString(),
                                ": must be dense f32, f64, f16 or bf16"));
  }
  if (recording() == nullptr) return DoScale(source, target, factor);
  return recording()->Add(
      {.kind = RecordedItem::Kind::kScale, .source = source, .target = target, .factor = factor});
}

absl::Status Stream::Wait(const Event& event) {
  MP_RETURN_IF_ERROR(maker_.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("Stream::Wait"));
  if (recording() != nullptr) return recording()->Join(event);
  if (event.recording != 0) {
    return UsageError(name(), " cannot wait for what was recorded for a graph on ",
                      event.stream->name());
  }
  if (event.stream == nullptr || event.stream == this) return absl::OkStatus();
  mp::Wait wait(*event.stream, event.position, true);  // where DoWait waits
  return DoWait(event);
}

absl::Status Stream::Synchronize(absl::Duration timeout) {
  MP_RETURN_IF_ERROR(maker_.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("Stream::Synchronize"));
  MP_RETURN_IF_ERROR(CheckTimeout(timeout));
  if (recording() != nullptr) return Waited(*this);
  const Event all = DoRecord();
  if (!DoQuery(all.position)) {
    mp::Wait wait(*this, all.position, timeout == absl::InfiniteDuration());
    const absl::StatusOr<bool> passed = DoBlock(all.position, timeout);
    // What led to that says more.
    if (!passed.ok()) return has_error_.load(sync::kAcquire) ? TakeError() : passed.status();
    if (!*passed) return TimedOut(timeout);
  }
  return has_error_.load(sync::kAcquire) ? TakeError() : absl::OkStatus();
}

void Stream::Report(const Failure& failure) {
  sync::MutexLock lock(mutex_);
  if (!error_.failed()) error_ = failure;
  has_error_.store(true, sync::kRelease);
}

std::optional<absl::Duration> Stream::StandsStill(absl::Duration now) {
  const std::optional<uint64_t> progress = DoProgress();
  sync::MutexLock lock(mutex_);
  if (progress != progress_) stands_since_ = now;
  progress_ = progress;
  if (!progress.has_value()) return std::nullopt;
  return now - stands_since_;
}

void Stream::Abandon(const Failure& failure) {
  sync::MutexLock lock(mutex_);
  if (!abandonment_.failed()) abandonment_ = failure;
  abandoned_.store(true, sync::kRelease);
}

absl::Status Stream::CheckNotAbandoned() {
  if (!abandoned_.load(sync::kAcquire)) return absl::OkStatus();
  sync::MutexLock lock(mutex_);
  return abandonment_.ToStatus();
}

void Stream::TakeBack(absl::string_view message) {
  sync::MutexLock lock(mutex_);
  if (error_.message != message) return;
  error_ = Failure();
  has_error_.store(false, sync::kRelaxed);
}

void Stream::PassErrorTo(Stream& other) {
  if (!has_error_.load(sync::kAcquire)) return;
  Failure failure;
  {
    sync::MutexLock lock(mutex_);
    has_error_.store(false, sync::kRelaxed);
    failure = std::exchange(error_, Failure());
  }
  if (failure.failed()) other.Report(failure);
}

// --- recording -----------------------------------------------------------------------------------

bool Stream::BeginRecording(Recording& recording) {
  uint64_t nobody = 0;
  if (!recording_thread_.compare_exchange_strong(nobody, sync::ThisThread(), sync::kAcquire,
                                                 sync::kRelaxed)) {
    return false;
  }
  recording_ = &recording;
  return true;
}

void Stream::EndRecording() {
  recording_ = nullptr;
  recording_thread_.store(0, sync::kRelease);
}

absl::Status Stream::RecordLaunch(Kernel kernel) {
  return recording_->Add({.kind = RecordedItem::Kind::kKernel, .kernel = std::move(kernel)});
}

Event Stream::RecordedMark() { return recording_->MarkOf(*this, false); }

absl::Status Stream::TakeError() {
  sync::MutexLock lock(mutex_);
  has_error_.store(false, sync::kRelaxed);
  return std::exchange(error_, Failure()).ToStatus();
}

}  // namespace mp
