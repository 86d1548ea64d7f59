#include "mp/model/text/words.h"

#include "mp/model/text/characters.h"
#include "mp/model/text/utf8.h"

namespace mp::model {

std::optional<absl::string_view> Words::Next() {
  word_.clear();
  size_t size = 0;
  for (std::optional<char32_t> next; (next = text_.front()).has_value(); text_.Pop()) {
    if (IsWhitespace(*next)) {
      if (size > 0) break;
      continue;
    }
    const bool is_punctuation = IsPunctuation(*next);
    if (is_punctuation && size > 0) break;
    if (++size <= longest_word_ + 1) word_ += Utf8Of(*next);
    if (is_punctuation) {
      text_.Pop();
      break;
    }
  }
  if (size == 0) return std::nullopt;
  return word_;
}

}  // namespace mp::model
