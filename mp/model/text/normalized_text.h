// A text as a BERT tokenizer sees it, character by character: cleaned, without accents, in lower
// case.  Nothing is read or kept beyond what was asked for, however long the text is.
//
//   NormalizedText text("Caf\u00e9 [SEP]", {}, added, /*longest_word=*/100);
//   while (text.front()) { ... *text.front() ...; text.Pop(); }  // c, a, f, e, space
//   text.rest();                                                 // "[SEP]"
#ifndef MP_MODEL_TEXT_NORMALIZED_TEXT_H_
#define MP_MODEL_TEXT_NORMALIZED_TEXT_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "mp/model/text/added_tokens.h"

namespace mp::model {

// What is done, in this order.
struct Normalization {
  bool clean_text = true;           // drops controls and U+FFFD; all whitespace becomes a space
  bool separate_ideographs = true;  // a space before and after each
  bool strip_accents = true;        // NFD without its nonspacing marks
  bool lowercase = true;

  friend bool operator==(const Normalization&, const Normalization&) = default;
};

class NormalizedText {
 public:
  // Ends before the first of the added tokens.  A word of more than `longest_word` characters
  // keeps more than that, but perhaps not all.  `text` and `added` must live as long.
  NormalizedText(absl::string_view text, const Normalization& normalization,
                 const AddedTokens& added, size_t longest_word);

  // Nothing at the end.
  std::optional<char32_t> front() const;
  void Pop();

  // What was not read: at the end, nothing or what begins with an added token.
  absl::string_view rest() const { return rest_; }

 private:
  // A mark that waits for others, which come before it if their class is lower.
  struct Mark {
    char32_t code;
    int combining_class;
  };

  void Fill();
  void Clean(char32_t code);
  void Separate(char32_t code);
  void Strip(char32_t code);
  void AddMark(Mark mark);
  void PutMarks();
  void Put(char32_t code);

  absl::string_view rest_;
  Normalization normalization_;
  const AddedTokens& added_;
  size_t longest_word_;
  std::vector<Mark> marks_;  // by class; of one class, as they came
  absl::InlinedVector<char32_t, 16> ready_;
  size_t next_ = 0;  // of ready_
};

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_NORMALIZED_TEXT_H_
