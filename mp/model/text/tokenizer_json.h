// tokenizer.json, as Hugging Face's tokenizers library writes it, where it describes a BERT
// tokenizer:
//
//   | key            | supported                                                            |
//   |----------------|----------------------------------------------------------------------|
//   | model          | WordPiece                                                            |
//   | normalizer     | BertNormalizer                                                       |
//   | pre_tokenizer  | BertPreTokenizer                                                     |
//   | post_processor | BertProcessing, and TemplateProcessing with one token on either side |
//   | added_tokens   | neither normalized nor single_word                                   |
//
// lstrip and rstrip of an added token take the whitespace beside it, of which no token is made
// anyway.  truncation and padding are the caller's affair and ignored, and so is the decoder.
#ifndef MP_MODEL_TEXT_TOKENIZER_JSON_H_
#define MP_MODEL_TEXT_TOKENIZER_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "mp/model/text/tokenizer_parts.h"

namespace mp::model {

// Unsupported: one of the above is something else.  InvalidArgument: it is not as the format
// demands.  Both name the file and the key.
absl::StatusOr<TokenizerParts> ReadTokenizerJson(const std::string& path);

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_TOKENIZER_JSON_H_
