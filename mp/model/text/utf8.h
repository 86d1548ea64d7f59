// Text one character at a time, whatever its bytes are.
//
//   while (!text.empty()) {
//     const Character next = FirstCharacter(text);
//     ...
//     text.remove_prefix(next.size_bytes);
//   }
//
// Bytes that are no UTF-8 act as U+FFFD, one for each maximal subpart (Unicode, section 3.9):
// the longest beginning of a character, or else one byte.  Python's errors="replace" does so too.
#ifndef MP_MODEL_TEXT_UTF8_H_
#define MP_MODEL_TEXT_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace mp::model {

inline constexpr char32_t kReplacement = 0xFFFD;

struct Character {
  char32_t code = kReplacement;
  size_t size_bytes = 0;
  bool is_valid = false;  // else it stands for bytes that are no UTF-8
};

// The first one of a text that is not empty.
Character FirstCharacter(absl::string_view text);

// Whether all of `text` is UTF-8.
bool IsUtf8(absl::string_view text);

// A text's size, where each maximal subpart counts as one.
size_t CountCharacters(absl::string_view text);

// The bytes of a code point up to U+10FFFF that is no surrogate.
std::string Utf8Of(char32_t code);

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_UTF8_H_
