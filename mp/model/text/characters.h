// What a BERT tokenizer asks about one code point.  The answers come from Unicode's tables as
// utf8proc has them (version 15).
#ifndef MP_MODEL_TEXT_CHARACTERS_H_
#define MP_MODEL_TEXT_CHARACTERS_H_

#include "absl/container/inlined_vector.h"

namespace mp::model {

using CodePoints = absl::InlinedVector<char32_t, 4>;

// Separates words: White_Space.
bool IsWhitespace(char32_t code);

// Is dropped from a text: control, format and private use, but no tab and no end of a line.
bool IsControl(char32_t code);

// A word of its own: the blocks of CJK ideographs that BERT lists, no kana and no Hangul.
bool IsIdeograph(char32_t code);

// A word of its own: punctuation, and every ASCII character that is no letter, digit, control or
// space.
bool IsPunctuation(char32_t code);

// An accent and the like.
bool IsNonspacingMark(char32_t code);

// 0 for what no mark is reordered across.
int CombiningClass(char32_t code);

// The full canonical decomposition, by itself.
CodePoints Decomposed(char32_t code);

// In lower case, regardless of the language and of what stands around it.
CodePoints Lowercased(char32_t code);

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_CHARACTERS_H_
