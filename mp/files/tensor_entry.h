// One tensor of a file: what it is and where its bytes lie.
#ifndef MP_FILES_TENSOR_ENTRY_H_
#define MP_FILES_TENSOR_ENTRY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "mp/dtype.h"
#include "mp/tensor.h"

namespace mp::files {

struct TensorEntry {
  std::string name;  // empty in .npy files
  DType dtype = DType::kF32;
  Shape shape;
  int64_t offset = 0;  // of the first element, from the start of the file

  int64_t size_bytes() const { return shape.elements() * SizeOf(dtype); }
};

// The bytes that a dense tensor takes.  InvalidArgument: no such shape, or more than 2^63 - 1.
absl::StatusOr<int64_t> BytesOf(DType dtype, const Shape& shape);

}  // namespace mp::files

#endif  // MP_FILES_TENSOR_ENTRY_H_
