// Text to token ids, for BERT models: the same ids as Hugging Face's tokenizers library gives.
//
//   MP_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load("models/all-MiniLM-L6-v2"));
//   tokenizer.Encode("Hello [SEP] world", 128);  // 101, 7592, 102, 2088, 102
//
// Its tables are those of Unicode 15, the library's are of Unicode 8 where it asks for categories.
// The two differ in 568 code points: 562 nonspacing marks, format controls and punctuation that are
// newer, make their word unknown there and are what they are here; and U+166D, U+1734, U+1885,
// U+1886, U+A9BD and U+111C9, whose category has changed.
//
// Errors.  Name the file, with the line or the key.  Bytes that are no UTF-8 act as U+FFFD, which
//          clean_text drops; who wants to refuse them asks IsUtf8 (utf8.h).
// Threads. Reading from any number.
#ifndef MP_MODEL_TEXT_TOKENIZER_H_
#define MP_MODEL_TEXT_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mp/model/text/tokenizer_parts.h"

namespace mp::model {

class Tokenizer {
 public:
  // From a model's folder: its tokenizer.json, or else its vocab.txt and tokenizer_config.json.
  // What is there but not ours (BPE, another normalizer) is Unsupported; see tokenizer_json.h and
  // vocab_txt.h.
  static absl::StatusOr<Tokenizer> Load(const std::string& folder);

  explicit Tokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}

  // [CLS], the text's tokens, [SEP]: at most `max_tokens` in all, which is at least 2.  Of a longer
  // text the first tokens; what follows them is not even read.
  std::vector<int32_t> Encode(absl::string_view text, int max_tokens) const;

  int vocab_size() const;

  // For people: "##ing".  Nothing where there is no such id.
  absl::string_view TextOf(int32_t id) const;

 private:
  TokenizerParts parts_;
};

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_TOKENIZER_H_
