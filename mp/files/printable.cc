#include "mp/files/printable.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mp::files {
namespace {

std::string Shortened(absl::string_view text, size_t longest) {
  if (text.size() <= longest) return std::string(text);
  return absl::StrCat(text.substr(0, longest / 2), "...", text.substr(text.size() - longest / 2));
}

}  // namespace

std::string Printable(absl::string_view text, size_t longest) {
  const std::string shortened = Shortened(text, longest);
  std::string printable;
  for (size_t i = 0; i < shortened.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shortened[i]);
    const auto next =
        static_cast<unsigned char>(i + 1 < shortened.size() ? shortened[i + 1] : '\0');
    if (byte == '\n') {
      printable += "\\n";
    } else if (byte == '\t') {
      printable += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080..U+009F: controls too
      absl::StrAppendFormat(&printable, "\\u00%02x", next);
      ++i;
    } else {
      printable += shortened[i];
    }
  }
  return printable;
}

}  // namespace mp::files
