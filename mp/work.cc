#include "mp/work.h"

#include "mp/group.h"

namespace mp {

absl::Status Work::status() const {
  return group_ == nullptr ? absl::OkStatus() : group_->StatusOf(sequence_);
}

absl::Status Work::Wait(Stream& stream) const {
  MP_RETURN_IF_ERROR(stream.Wait(event_));
  return status();
}

absl::Status Work::Synchronize(absl::Duration timeout) const {
  MP_RETURN_IF_ERROR(event_.Synchronize(timeout));
  return status();
}

}  // namespace mp
