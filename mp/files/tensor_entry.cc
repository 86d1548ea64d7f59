#include "mp/files/tensor_entry.h"

#include "mp/base/status.h"

namespace mp::files {

absl::StatusOr<int64_t> BytesOf(DType dtype, const Shape& shape) {
  // Zeros are left out of the product: rows of an empty tensor have a size too.
  int64_t bytes = SizeOf(dtype);
  bool possible = shape.ok();
  for (const int64_t size : shape.dims()) {
    if (size > 0 && __builtin_mul_overflow(bytes, size, &bytes)) possible = false;
  }
  if (possible) return shape.elements() == 0 ? 0 : bytes;
  return InvalidArgument("shape ", shape.ToString(), " of ", DTypeName(dtype),
                         " is impossible: negative, or more than 2^63 - 1 bytes");
}

}  // namespace mp::files
