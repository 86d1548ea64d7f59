// How deep the values of a JSON text lie within each other.  What writes such a value into a
// message calls itself for each level, so a file that nests without end would use up the stack.
#ifndef MP_MODEL_TEXT_JSON_NESTING_H_
#define MP_MODEL_TEXT_JSON_NESTING_H_

#include "absl/strings/string_view.h"

namespace mp::model {

// More than any file of a model has.
inline constexpr int kDeepestJson = 100;

// Whether more arrays and objects than that are within each other.  `json` is valid.
bool NestsTooDeeply(absl::string_view json);

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_JSON_NESTING_H_
