// WordPiece: a vocabulary, and how it cuts a word into the longest pieces that it has.
//
//   MP_ASSIGN_OR_RETURN(WordPiece words, WordPiece::Create({"[UNK]", "un", "##able"}, {}));
//   words.Cut("unable");  // 1, 2
//   words.Cut("unhappy");  // 0
//
// Threads. Reading from any number.
#ifndef MP_MODEL_TEXT_WORDPIECE_H_
#define MP_MODEL_TEXT_WORDPIECE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mp::model {

struct WordPieceOptions {
  std::string unknown = "[UNK]";  // stands for a whole word
  std::string prefix = "##";      // of a piece that is not a word's first
  size_t longest_word = 100;      // in characters; a longer one is unknown
};

class WordPiece {
 public:
  using Ids = absl::InlinedVector<int32_t, 8>;

  // `tokens` by id, UTF-8, none twice.  InvalidArgument where `options.unknown` is none of them.
  static absl::StatusOr<WordPiece> Create(std::vector<std::string> tokens,
                                          WordPieceOptions options);

  // The pieces of a word that is not empty, each the longest that fits; the unknown token alone
  // where one is missing.
  Ids Cut(absl::string_view word) const;

  std::optional<int32_t> IdOf(absl::string_view token) const;

  const std::vector<std::string>& tokens() const { return tokens_; }
  size_t longest_word() const { return options_.longest_word; }

 private:
  using IdByText = absl::flat_hash_map<std::string, int32_t>;

  struct Piece {
    int32_t id;
    size_t size_bytes;
  };

  WordPiece(std::vector<std::string> tokens, WordPieceOptions options);
  std::optional<Piece> LongestPiece(const IdByText& pieces, absl::string_view text) const;

  std::vector<std::string> tokens_;
  WordPieceOptions options_;
  IdByText firsts_;     // all tokens
  IdByText followers_;  // those with the prefix, without it
  int32_t unknown_ = 0;
  size_t longest_token_ = 0;  // in bytes
};

}  // namespace mp::model

#endif  // MP_MODEL_TEXT_WORDPIECE_H_
