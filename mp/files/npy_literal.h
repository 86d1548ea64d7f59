// The dictionary in the header of an .npy file, which is a literal of the Python language:
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// Any order of the three keys, both kinds of quotes, blanks and a last comma are read.  No other
// key, no key twice, nothing behind the dictionary.
#ifndef MP_FILES_NPY_LITERAL_H_
#define MP_FILES_NPY_LITERAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mp::files {

struct NpyLiteral {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Unsupported: a descr that is a list, which describes a structure.  InvalidArgument: the rest.
absl::StatusOr<NpyLiteral> ParseNpyLiteral(absl::string_view text);

}  // namespace mp::files

#endif  // MP_FILES_NPY_LITERAL_H_
