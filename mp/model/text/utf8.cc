#include "mp/model/text/utf8.h"

#include "utf8proc.h"

namespace mp::model {
namespace {

using Byte = unsigned char;

// What may follow a first byte: how many bytes, and the bounds of the first of them (table 3-7 of
// the Unicode standard).  Those after it are 80..BF.
struct Sequence {
  size_t following = 0;
  Byte low = 0x80;
  Byte high = 0xBF;
};

// None for a byte that begins no sequence, and for ASCII.
Sequence SequenceOf(Byte first) {
  if (first < 0xC2 || first > 0xF4) return {};
  if (first < 0xE0) return {1};
  if (first == 0xE0) return {2, 0xA0, 0xBF};
  if (first == 0xED) return {2, 0x80, 0x9F};
  if (first < 0xF0) return {2};
  if (first == 0xF0) return {3, 0x90, 0xBF};
  if (first == 0xF4) return {3, 0x80, 0x8F};
  return {3};
}

}  // namespace

Character FirstCharacter(absl::string_view text) {
  const auto first = static_cast<Byte>(text[0]);
  if (first < 0x80) return {first, 1, true};
  Sequence sequence = SequenceOf(first);
  if (sequence.following == 0) return {kReplacement, 1, false};
  char32_t code = first & (0x3Fu >> sequence.following);
  for (size_t i = 1; i <= sequence.following; ++i) {
    const auto byte = static_cast<Byte>(i < text.size() ? text[i] : '\0');
    if (byte < sequence.low || byte > sequence.high) return {kReplacement, i, false};
    code = code << 6 | (byte & 0x3Fu);
    sequence.low = 0x80;
    sequence.high = 0xBF;
  }
  return {code, sequence.following + 1, true};
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    if (!next.is_valid) return false;
    text.remove_prefix(next.size_bytes);
  }
  return true;
}

size_t CountCharacters(absl::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(FirstCharacter(text).size_bytes);
  return count;
}

std::string Utf8Of(char32_t code) {
  Byte bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  return std::string(bytes, bytes + size);
}

}  // namespace mp::model
