// vocab.txt, a token a line, whose number from 0 on is its id; and tokenizer_config.json, if it
// is there, for what BertTokenizer of Hugging Face's transformers would do with it.
//
//   | key                                        | otherwise                     |
//   |--------------------------------------------|-------------------------------|
//   | do_lower_case, tokenize_chinese_chars      | true                          |
//   | strip_accents                              | as do_lower_case              |
//   | unk_token, cls_token, sep_token, pad_token | [UNK], [CLS], [SEP], [PAD]    |
//   | mask_token                                 | [MASK]                        |
//
// These five tokens stand for themselves in a text.
#ifndef MP_MODEL_TEXT_VOCAB_TXT_H_
#define MP_MODEL_TEXT_VOCAB_TXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "mp/model/text/tokenizer_parts.h"

namespace mp::model {

// Unsupported: another tokenizer_class, more added tokens than five, do_basic_tokenize off, or
// never_split.  InvalidArgument names the file and the line or key.
absl::StatusOr<TokenizerParts> ReadVocabTxt(const std::string& vocab_path,
                                            const std::string& config_path);

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_VOCAB_TXT_H_
