// Text from outside (names of files and tensors), made fit for a message of one line.
//
//   return InvalidArgument(Printable(path), ": is empty");
//
// Control characters become \n, \x1b and the like, so that nothing breaks the line or drives the
// terminal; what is longer than `longest` bytes is cut in the middle.
#ifndef MP_FILES_PRINTABLE_H_
#define MP_FILES_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace mp::files {

inline constexpr size_t kLongestName = 200;
inline constexpr size_t kLongestMessage = 4000;

std::string Printable(absl::string_view text, size_t longest = kLongestName);

}  // namespace mp::files

#endif  // MP_FILES_PRINTABLE_H_
