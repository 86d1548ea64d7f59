#include "mp/model/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace mp::model {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.text.size() > b.text.size();
  });
  for (const AddedToken& token : tokens_) {
    first_bytes_.set(static_cast<unsigned char>(token.text[0]));
  }
}

const AddedToken* AddedTokens::At(absl::string_view text) const {
  if (text.empty() || !first_bytes_[static_cast<unsigned char>(text[0])]) return nullptr;
  for (const AddedToken& token : tokens_) {
    if (absl::StartsWith(text, token.text)) return &token;
  }
  return nullptr;
}

}  // namespace mp::model
