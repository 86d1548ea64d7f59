// The .safetensors format: any number of named tensors behind a JSON header.
//
//   MP_ASSIGN_OR_RETURN(SafetensorsIndex index, ParseSafetensors(bytes_of_the_file));
//   MP_ASSIGN_OR_RETURN(SafetensorsLayout layout, LayOutSafetensors(std::move(index)));
//
// 8 bytes little-endian: the length of the header; the header; the tensors, back to back in the
// header's data_offsets.  Keys of a tensor other than dtype, shape and data_offsets are ignored, as
// the format's reference reader does.
//
// Errors. InvalidArgument: anything in the header that is not as it must be, data that overlaps,
//         has holes or does not fill the file.  Unsupported: a dtype not in the table of
//         safetensors.cc, more than 8 dimensions.  Messages name the tensor and not the file.
#ifndef MP_FILES_SAFETENSORS_H_
#define MP_FILES_SAFETENSORS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mp/files/tensor_entry.h"

namespace mp::files {

// The header's "__metadata__".
using Metadata = std::map<std::string, std::string>;

struct SafetensorsIndex {
  std::vector<TensorEntry> tensors;  // as they lie in the file
  Metadata metadata;
};

absl::StatusOr<SafetensorsIndex> ParseSafetensors(absl::string_view file);

struct SafetensorsLayout {
  std::string header;                // all bytes before the data
  std::vector<TensorEntry> tensors;  // in the order of the index, with their offsets
  int64_t size_bytes = 0;            // of the file
};

// Where a writer puts what `index` names; the offsets in it are not looked at.  As the reference
// writer does: the dtypes with the strictest alignment first, then by name, and the header padded
// with blanks to 8 bytes.
absl::StatusOr<SafetensorsLayout> LayOutSafetensors(const SafetensorsIndex& index);

}  // namespace mp::files

#endif  // MP_FILES_SAFETENSORS_H_
