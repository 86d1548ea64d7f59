#include "mp/device.h"

namespace mp {

absl::StatusOr<Buffer> Device::Allocate(DType dtype, const Shape& shape) {
  MP_RETURN_IF_ERROR(maker_.Check());
  int64_t bytes = 0;
  if (!shape.ok() || __builtin_mul_overflow(shape.elements(), SizeOf(dtype), &bytes)) {
    return InvalidArgument("cannot allocate ", DTypeName(dtype), shape.ToString(), " on ", name(),
                           ": an impossible shape");
  }
  MP_ASSIGN_OR_RETURN(void* data, DoAllocate(bytes));
  return Buffer(this, TensorView(data, dtype, shape));
}

absl::StatusOr<std::unique_ptr<Stream>> Device::NewStream() {
  MP_RETURN_IF_ERROR(maker_.Check());
  MP_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, DoNewStream());
  stream->set_watch(watch());
  return stream;
}

Buffer::~Buffer() {
  if (device_ != nullptr && device_->maker_.is_this()) device_->DoFree(view_.data());
}

}  // namespace mp
