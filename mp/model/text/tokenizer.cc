#include "mp/model/text/tokenizer.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "mp/base/check.h"
#include "mp/base/status.h"
#include "mp/files/mapped_file.h"
#include "mp/files/printable.h"
#include "mp/model/text/tokenizer_json.h"
#include "mp/model/text/vocab_txt.h"
#include "mp/model/text/words.h"

namespace mp::model {
namespace {

bool Exists(const std::string& path) { return files::FileIdOf(path).has_value(); }

absl::StatusOr<TokenizerParts> ReadFolder(const std::string& folder) {
  const std::string json = absl::StrCat(folder, "/tokenizer.json");
  if (Exists(json)) return ReadTokenizerJson(json);
  const std::string vocab = absl::StrCat(folder, "/vocab.txt");
  if (Exists(vocab)) return ReadVocabTxt(vocab, absl::StrCat(folder, "/tokenizer_config.json"));
  return InvalidArgument(files::Printable(folder),
                         ": has neither a tokenizer.json nor a vocab.txt");
}

}  // namespace

absl::StatusOr<Tokenizer> Tokenizer::Load(const std::string& folder) {
  MP_ASSIGN_OR_RETURN(TokenizerParts parts, ReadFolder(folder));
  return Tokenizer(std::move(parts));
}

std::vector<int32_t> Tokenizer::Encode(absl::string_view text, int max_tokens) const {
  MP_CHECK(max_tokens >= 2);
  const auto most = static_cast<size_t>(max_tokens) - 1;  // without the last
  std::vector<int32_t> ids{parts_.first};
  while (ids.size() < most && !text.empty()) {
    if (const AddedToken* added = parts_.added.At(text)) {
      ids.push_back(added->id);
      text.remove_prefix(added->text.size());
      continue;
    }
    Words words(text, parts_.normalization, parts_.added, parts_.wordpiece.longest_word());
    while (ids.size() < most) {
      const std::optional<absl::string_view> word = words.Next();
      if (!word.has_value()) break;
      for (const int32_t id : parts_.wordpiece.Cut(*word)) ids.push_back(id);
    }
    text = words.rest();
  }
  ids.resize(std::min(ids.size(), most));
  ids.push_back(parts_.last);
  return ids;
}

int Tokenizer::vocab_size() const {
  size_t size = parts_.wordpiece.tokens().size();
  for (const AddedToken& token : parts_.added.tokens()) {
    size = std::max(size, static_cast<size_t>(token.id) + 1);
  }
  return static_cast<int>(size);
}

absl::string_view Tokenizer::TextOf(int32_t id) const {
  const std::vector<std::string>& tokens = parts_.wordpiece.tokens();
  if (id >= 0 && static_cast<size_t>(id) < tokens.size()) return tokens[static_cast<size_t>(id)];
  for (const AddedToken& token : parts_.added.tokens()) {
    if (token.id == id) return token.text;
  }
  return {};
}

}  // namespace mp::model
