// A BERT tokenizer with a vocabulary of a few words, as the two kinds of files describe it.
#ifndef MP_TESTS_MODEL_TEXT_SMALL_H_
#define MP_TESTS_MODEL_TEXT_SMALL_H_

#include <string>

#include "nlohmann/json.hpp"

namespace mp::model {

// By id:    0     1     2     3     4      5     6  7   8  9    10 11  12 13     14
//         [PAD] [UNK] [CLS] [SEP] [MASK] hello un ##h hi able a ##ble , \u4e2d ##\u00e9
std::string SmallVocabTxt();

// The tokenizer.json that says the same.
nlohmann::json SmallTokenizerJson();

}  // namespace mp::model

#endif  // MP_TESTS_MODEL_TEXT_SMALL_H_
