// The JSON in the header of a .safetensors file, as it is written there: nothing is checked yet
// but the form.
//
//   {"__metadata__": {"format": "pt"},
//    "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
#ifndef MP_FILES_SAFETENSORS_HEADER_H_
#define MP_FILES_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mp::files {

struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;  // begin and end, from the start of the data
};

struct RawHeader {
  std::vector<RawTensor> tensors;  // as the header lists them
  std::map<std::string, std::string> metadata;
};

// InvalidArgument: no JSON, another form than above, a name or key twice, a number that is not
// a whole one from 0 to 2^63 - 1.
absl::StatusOr<RawHeader> ParseRawHeader(absl::string_view json);

}  // namespace mp::files

#endif  // MP_FILES_SAFETENSORS_HEADER_H_
