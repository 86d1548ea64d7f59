#include "mp/model/text/normalized_text.h"

#include <algorithm>

#include "mp/model/text/characters.h"
#include "mp/model/text/utf8.h"

namespace mp::model {

NormalizedText::NormalizedText(absl::string_view text, const Normalization& normalization,
                               const AddedTokens& added, size_t longest_word)
    : rest_(text), normalization_(normalization), added_(added), longest_word_(longest_word) {
  Fill();
}

std::optional<char32_t> NormalizedText::front() const {
  if (next_ == ready_.size()) return std::nullopt;
  return ready_[next_];
}

void NormalizedText::Pop() {
  if (++next_ == ready_.size()) Fill();
}

void NormalizedText::Fill() {
  ready_.clear();
  next_ = 0;
  while (ready_.empty()) {
    if (rest_.empty() || added_.At(rest_) != nullptr) return PutMarks();
    const Character character = FirstCharacter(rest_);
    rest_.remove_prefix(character.size_bytes);
    Clean(character.code);
  }
}

void NormalizedText::Clean(char32_t code) {
  if (!normalization_.clean_text) return Separate(code);
  if (code == kReplacement || IsControl(code)) return;
  Separate(IsWhitespace(code) ? U' ' : code);
}

void NormalizedText::Separate(char32_t code) {
  const bool is_apart = normalization_.separate_ideographs && IsIdeograph(code);
  if (is_apart) Strip(' ');
  Strip(code);
  if (is_apart) Strip(' ');
}

void NormalizedText::Strip(char32_t code) {
  if (!normalization_.strip_accents) return Put(code);
  for (const char32_t part : Decomposed(code)) {
    const int combining_class = CombiningClass(part);
    if (combining_class == 0) PutMarks();
    if (IsNonspacingMark(part)) continue;
    if (combining_class == 0) {
      Put(part);
    } else {
      AddMark({part, combining_class});
    }
  }
}

void NormalizedText::AddMark(Mark mark) {
  if (marks_.size() > longest_word_) return;  // too long already
  marks_.insert(std::upper_bound(marks_.begin(), marks_.end(), mark,
                                 [](const Mark& a, const Mark& b) {
                                   return a.combining_class < b.combining_class;
                                 }),
                mark);
}

void NormalizedText::PutMarks() {
  for (const Mark& mark : marks_) Put(mark.code);
  marks_.clear();
}

void NormalizedText::Put(char32_t code) {
  if (!normalization_.lowercase) {
    ready_.push_back(code);
    return;
  }
  for (const char32_t lower : Lowercased(code)) ready_.push_back(lower);
}

}  // namespace mp::model
