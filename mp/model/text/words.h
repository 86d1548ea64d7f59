// A text's words, as a BERT tokenizer cuts them: at whitespace, with each punctuation character
// and each ideograph on its own.
//
//   Words words("Don't!", {}, added, /*longest_word=*/100);
//   while (std::optional<absl::string_view> word = words.Next()) ...  // don ' t !
#ifndef MP_MODEL_TEXT_WORDS_H_
#define MP_MODEL_TEXT_WORDS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "mp/model/text/added_tokens.h"
#include "mp/model/text/normalized_text.h"

namespace mp::model {

class Words {
 public:
  // As NormalizedText.
  Words(absl::string_view text, const Normalization& normalization, const AddedTokens& added,
        size_t longest_word)
      : text_(text, normalization, added, longest_word), longest_word_(longest_word) {}

  // The next one, until the next call; of a word that is longer than the longest, the first
  // longest_word + 1 characters.  Nothing at the end.
  std::optional<absl::string_view> Next();

  // At the end: what the text has from the first added token on.
  absl::string_view rest() const { return text_.rest(); }

 private:
  NormalizedText text_;
  size_t longest_word_;
  std::string word_;
};

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_WORDS_H_
