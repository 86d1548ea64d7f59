#include "mp/stream.h"

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

}  // namespace

bool Event::Done() const { return stream == nullptr || stream->DoQuery(position); }

absl::Status Event::Synchronize(absl::Duration timeout) const {
  MP_RETURN_IF_ERROR(CheckTimeout(timeout));
  if (Done()) return absl::OkStatus();
  MP_ASSIGN_OR_RETURN(const bool passed, stream->DoBlock(position, timeout));
  return passed ? absl::OkStatus() : TimedOut(timeout);
}

absl::Status Stream::Copy(const TensorView& source, const TensorView& target) {
  MP_RETURN_IF_ERROR(CheckSame(source, target));
  const auto* from = static_cast<const char*>(source.data());
  const auto* to = static_cast<const char*>(target.data());
  const bool same_rows = source.row_pitch() == target.row_pitch() || source.rows() <= 1;
  if ((from == to && same_rows) || source.size_bytes() == 0) return absl::OkStatus();
  if (from < to + target.extent_bytes() && to < from + source.extent_bytes()) {
    return InvalidArgument("copy of ", source.ToString(), " to ", target.ToString(),
                           ": their memory overlaps");
  }
  return DoCopy(source, target);
}

absl::Status Stream::Scale(const TensorView& source, const TensorView& target, double factor) {
  MP_RETURN_IF_ERROR(CheckSame(source, target));
  if (!IsReducibleFloat(source.dtype()) || !source.is_dense() || !target.is_dense()) {
    return InvalidArgument("scaling of ", source.ToString(), " to ", target.ToString(),
                           ": must be dense f32, f64, f16 or bf16");
  }
  return DoScale(source, target, factor);
}

absl::Status Stream::Wait(const Event& event) {
  if (event.stream == nullptr || event.stream == this) return absl::OkStatus();
  return DoWait(event);
}

absl::Status Stream::Synchronize(absl::Duration timeout) {
  MP_RETURN_IF_ERROR(CheckTimeout(timeout));
  const Event all = DoRecord();
  if (!DoQuery(all.position)) {
    MP_ASSIGN_OR_RETURN(const bool passed, DoBlock(all.position, timeout));
    if (!passed) return TimedOut(timeout);
  }
  return has_error_.load(sync::kAcquire) ? TakeError() : absl::OkStatus();
}

void Stream::Report(const Failure& failure) {
  sync::MutexLock lock(mutex_);
  if (!error_.failed()) error_ = failure;
  has_error_.store(true, sync::kRelease);
}

void Stream::TakeBack(absl::string_view message) {
  sync::MutexLock lock(mutex_);
  if (error_.message != message) return;
  error_ = Failure();
  has_error_.store(false, sync::kRelaxed);
}

absl::Status Stream::TakeError() {
  sync::MutexLock lock(mutex_);
  has_error_.store(false, sync::kRelaxed);
  return std::exchange(error_, Failure()).ToStatus();
}

}  // namespace mp
