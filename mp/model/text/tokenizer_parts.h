// What a tokenizer is made of, as a model's files describe it.
#ifndef MP_MODEL_TEXT_TOKENIZER_PARTS_H_
#define MP_MODEL_TEXT_TOKENIZER_PARTS_H_

#include <cstdint>

#include "mp/model/text/added_tokens.h"
#include "mp/model/text/normalized_text.h"
#include "mp/model/text/wordpiece.h"

namespace mp::model {

struct TokenizerParts {
  WordPiece wordpiece;
  AddedTokens added;  // those that the vocabulary lacks have the ids after it
  Normalization normalization;
  int32_t first = 0;  // [CLS]
  int32_t last = 0;   // [SEP]
};

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_TOKENIZER_PARTS_H_
