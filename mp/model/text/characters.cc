#include "mp/model/text/characters.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "utf8proc.h"

namespace mp::model {
namespace {

utf8proc_int32_t Native(char32_t code) { return static_cast<utf8proc_int32_t>(code); }

// Most text is ASCII, and needs no tables.
bool IsAscii(char32_t code) { return code < 0x80; }
unsigned char Ascii(char32_t code) { return static_cast<unsigned char>(code); }

utf8proc_category_t CategoryOf(char32_t code) { return utf8proc_category(Native(code)); }

struct Block {
  char32_t first;
  char32_t last;
};
// As the original BERT lists them: extension E begins late, and later extensions are missing.
constexpr Block kIdeographs[] = {
    {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
    {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
};

}  // namespace

bool IsWhitespace(char32_t code) {
  if (IsAscii(code)) return absl::ascii_isspace(Ascii(code));
  if (code == 0x85) return true;
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

bool IsControl(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  if (IsAscii(code)) return absl::ascii_iscntrl(Ascii(code));
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return true;
    default:
      return false;
  }
}

bool IsIdeograph(char32_t code) {
  if (IsAscii(code)) return false;
  return std::any_of(std::begin(kIdeographs), std::end(kIdeographs), [code](const Block& block) {
    return code >= block.first && code <= block.last;
  });
}

bool IsPunctuation(char32_t code) {
  if (IsAscii(code)) return absl::ascii_ispunct(Ascii(code));
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool IsNonspacingMark(char32_t code) {
  return !IsAscii(code) && CategoryOf(code) == UTF8PROC_CATEGORY_MN;
}

int CombiningClass(char32_t code) {
  return IsAscii(code) ? 0 : utf8proc_get_property(Native(code))->combining_class;
}

CodePoints Decomposed(char32_t code) {
  if (IsAscii(code)) return {code};
  utf8proc_int32_t parts[4];  // no canonical decomposition is longer
  const auto size = utf8proc_decompose_char(Native(code), parts, 4, UTF8PROC_DECOMPOSE,
                                            /*last_boundclass=*/nullptr);
  return CodePoints(parts, parts + size);
}

CodePoints Lowercased(char32_t code) {
  if (IsAscii(code)) return {static_cast<char32_t>(absl::ascii_tolower(Ascii(code)))};
  // The one character whose lower case is two (SpecialCasing.txt); utf8proc maps one to one.
  if (code == 0x130) return {'i', 0x307};
  return {static_cast<char32_t>(utf8proc_tolower(Native(code)))};
}

}  // namespace mp::model
