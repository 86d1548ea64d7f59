// Tokens that stand for themselves in a text, before anything else is done to it: "[SEP]".
#ifndef MP_MODEL_TEXT_ADDED_TOKENS_H_
#define MP_MODEL_TEXT_ADDED_TOKENS_H_

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mp::model {

struct AddedToken {
  std::string text;  // not empty
  int32_t id = 0;
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  // The longest that `text` begins with, or null.  Lives as long as this object.
  const AddedToken* At(absl::string_view text) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;  // longer ones first
  std::bitset<256> first_bytes_;
};

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_ADDED_TOKENS_H_
