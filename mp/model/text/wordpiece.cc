#include "mp/model/text/wordpiece.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "mp/base/status.h"
#include "mp/files/printable.h"
#include "mp/model/text/utf8.h"

namespace mp::model {

absl::StatusOr<WordPiece> WordPiece::Create(std::vector<std::string> tokens,
                                            WordPieceOptions options) {
  WordPiece made(std::move(tokens), std::move(options));
  const std::optional<int32_t> unknown = made.IdOf(made.options_.unknown);
  if (!unknown.has_value()) {
    return InvalidArgument("has no \"", files::Printable(made.options_.unknown),
                           "\", which stands for unknown words");
  }
  made.unknown_ = *unknown;
  return made;
}

WordPiece::WordPiece(std::vector<std::string> tokens, WordPieceOptions options)
    : tokens_(std::move(tokens)), options_(std::move(options)) {
  for (int32_t id = 0; const std::string& token : tokens_) {
    firsts_.emplace(token, id);
    if (absl::StartsWith(token, options_.prefix)) {
      followers_.emplace(token.substr(options_.prefix.size()), id);
    }
    longest_token_ = std::max(longest_token_, token.size());
    ++id;
  }
}

WordPiece::Ids WordPiece::Cut(absl::string_view word) const {
  if (CountCharacters(word) > options_.longest_word) return {unknown_};
  Ids ids;
  while (!word.empty()) {
    const auto piece = LongestPiece(ids.empty() ? firsts_ : followers_, word);
    if (!piece.has_value()) return {unknown_};
    ids.push_back(piece->id);
    word.remove_prefix(piece->size_bytes);
  }
  return ids;
}

std::optional<WordPiece::Piece> WordPiece::LongestPiece(const IdByText& pieces,
                                                        absl::string_view text) const {
  // No token ends inside a character, so no piece does.
  for (size_t size = std::min(text.size(), longest_token_); size > 0; --size) {
    const auto found = pieces.find(text.substr(0, size));
    if (found != pieces.end()) return Piece{found->second, size};
  }
  return std::nullopt;
}

std::optional<int32_t> WordPiece::IdOf(absl::string_view token) const {
  const auto found = firsts_.find(token);
  if (found == firsts_.end()) return std::nullopt;
  return found->second;
}

}  // namespace mp::model
