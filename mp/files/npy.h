// NumPy's .npy format: one array with a header that describes it.
//
//   MP_ASSIGN_OR_RETURN(TensorEntry array, ParseNpy(bytes_of_the_file));
//   MP_ASSIGN_OR_RETURN(std::string header, NpyHeader(DType::kF32, {2, 3}));  // then 24 bytes
//
// Versions 1.0, 2.0 and 3.0; little-endian f2 f4 f8 i1 u1 i2 u2 i4 u4 i8 u8 b1 c8 c16.
//
// Errors. Unsupported, by name: big-endian, Fortran order (unless it is the same as C order),
//         strings, objects, structures, dates, more than 8 dimensions.  InvalidArgument: not
//         such a file, or shorter or longer than its header says.  Messages do not name the file.
#ifndef MP_FILES_NPY_H_
#define MP_FILES_NPY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mp/files/tensor_entry.h"

namespace mp::files {

// What `file`, all bytes of a file, holds.
absl::StatusOr<TensorEntry> ParseNpy(absl::string_view file);

// The bytes that NumPy writes before the data (version 1.0, padded to 64).
// Unsupported: a type that the format does not have (bf16, fp8).
absl::StatusOr<std::string> NpyHeader(DType dtype, const Shape& shape);

}  // namespace mp::files

#endif  // MP_FILES_NPY_H_
