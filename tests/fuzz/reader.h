// A reader of files under mutated inputs.  A program is one reader and a driver: the one here
// (driver.cc), or libFuzzer, which knows LLVMFuzzerTestOneInput (entry.cc).
//
// Threads. One.
#ifndef MP_TESTS_FUZZ_READER_H_
#define MP_TESTS_FUZZ_READER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mp::fuzz {

// What the reader makes of a file of these bytes: the message, or "OK".
std::string Read(absl::string_view input);

// Files that it reads well, and pieces that are worth writing into them.
std::vector<std::string> Seeds();
std::vector<std::string> Pieces();

}  // namespace mp::fuzz

#endif  // MP_TESTS_FUZZ_READER_H_
