#include "mp/model/text/vocab_txt.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "mp/base/status.h"
#include "mp/files/mapped_file.h"
#include "mp/files/printable.h"
#include "mp/model/text/json_value.h"
#include "mp/model/text/utf8.h"

namespace mp::model {
namespace {

using files::Printable;

struct Special {
  absl::string_view key;
  std::string text;
};

struct Config {
  Normalization normalization;
  std::array<Special, 5> specials{{{"unk_token", "[UNK]"},
                                   {"cls_token", "[CLS]"},
                                   {"sep_token", "[SEP]"},
                                   {"pad_token", "[PAD]"},
                                   {"mask_token", "[MASK]"}}};
};
constexpr size_t kUnknown = 0, kFirst = 1, kLast = 2;

absl::StatusOr<std::vector<std::string>> ReadVocabulary(const std::string& path) {
  MP_ASSIGN_OR_RETURN(const files::MappedFile file, files::MappedFile::Open(path));
  std::vector<std::string> tokens;
  absl::flat_hash_map<std::string, size_t> line_of;
  const absl::string_view bytes = absl::StripSuffix(file.bytes(), "\n");
  for (absl::string_view line : absl::StrSplit(bytes, '\n')) {
    line = absl::StripSuffix(line, "\r");
    const size_t number = tokens.size() + 1;
    const std::string where = absl::StrCat(Printable(path), ": line ", number);
    if (line.empty()) return InvalidArgument(where, " is empty");
    if (!IsUtf8(line)) return InvalidArgument(where, " is not UTF-8");
    const auto [first, is_new] = line_of.emplace(line, number);
    if (!is_new) {
      return InvalidArgument(where, " has the token \"", Printable(line), "\" of line ",
                             first->second, " again");
    }
    tokens.emplace_back(line);
  }
  return tokens;
}

// A token is a string, or an object that has its text as "content".
absl::StatusOr<std::string> SpecialAt(const JsonValue& config, absl::string_view key) {
  MP_ASSIGN_OR_RETURN(const JsonValue value, config.At(key));
  return value.json().is_object() ? value.TextAt("content") : config.TextAt(key);
}

bool IsSpecial(const Config& config, absl::string_view text) {
  for (const Special& special : config.specials) {
    if (special.text == text) return true;
  }
  return false;
}

// What would make other tokens of a text, and we do not know.
absl::Status RefuseOthers(const JsonValue& file, const Config& config) {
  if (file.Has("tokenizer_class")) {
    MP_RETURN_IF_ERROR(file.OneOfAt("tokenizer_class", {"BertTokenizer", "BertTokenizerFast"}));
  }
  if (file.Has("do_basic_tokenize")) {
    MP_ASSIGN_OR_RETURN(const bool is_basic, file.FlagAt("do_basic_tokenize"));
    if (!is_basic) return Unsupported(Printable(file.path()), ": \"do_basic_tokenize\" is false");
  }
  for (const char* key : {"never_split", "additional_special_tokens"}) {
    if (!file.Has(key)) continue;
    MP_ASSIGN_OR_RETURN(const JsonValue value, file.At(key));
    if (!value.json().empty()) return value.Other("none");
  }
  if (!file.Has("added_tokens_decoder")) return absl::OkStatus();
  MP_ASSIGN_OR_RETURN(const JsonValue added, file.At("added_tokens_decoder"));
  if (!added.json().is_object()) return added.Wrong("an object");
  for (const auto& [id, ignored] : added.json().items()) {
    MP_ASSIGN_OR_RETURN(const std::string text, SpecialAt(added, id));
    if (IsSpecial(config, text)) continue;
    return Unsupported(Printable(file.path()), ": \"added_tokens_decoder\" has \"", Printable(text),
                       "\", which is none of the five special tokens");
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> ReadConfig(const std::string& path) {
  Config config;
  if (!files::FileIdOf(path).has_value()) return config;
  MP_ASSIGN_OR_RETURN(const JsonValue file, JsonValue::Load(path));
  Normalization& normalization = config.normalization;
  if (file.Has("do_lower_case")) {
    MP_ASSIGN_OR_RETURN(normalization.lowercase, file.FlagAt("do_lower_case"));
  }
  normalization.strip_accents = normalization.lowercase;
  if (file.Has("strip_accents")) {
    MP_ASSIGN_OR_RETURN(normalization.strip_accents, file.FlagAt("strip_accents"));
  }
  if (file.Has("tokenize_chinese_chars")) {
    MP_ASSIGN_OR_RETURN(normalization.separate_ideographs, file.FlagAt("tokenize_chinese_chars"));
  }
  for (Special& special : config.specials) {
    if (!file.Has(special.key)) continue;
    MP_ASSIGN_OR_RETURN(special.text, SpecialAt(file, special.key));
  }
  MP_RETURN_IF_ERROR(RefuseOthers(file, config));
  return config;
}

}  // namespace

absl::StatusOr<TokenizerParts> ReadVocabTxt(const std::string& vocab_path,
                                            const std::string& config_path) {
  MP_ASSIGN_OR_RETURN(const Config config, ReadConfig(config_path));
  MP_ASSIGN_OR_RETURN(std::vector<std::string> tokens, ReadVocabulary(vocab_path));
  auto wordpiece =
      WordPiece::Create(std::move(tokens), {.unknown = config.specials[kUnknown].text});
  if (!wordpiece.ok()) {
    return InvalidArgument(Printable(vocab_path), ": ", wordpiece.status().message());
  }
  std::vector<AddedToken> added;
  for (const Special& special : config.specials) {
    const std::optional<int32_t> id = wordpiece->IdOf(special.text);
    if (!id.has_value()) {
      return InvalidArgument(Printable(vocab_path), ": has no \"", Printable(special.text),
                             "\", the ", special.key);
    }
    added.push_back({special.text, *id});
  }
  const int32_t first = added[kFirst].id;
  const int32_t last = added[kLast].id;
  return TokenizerParts{*std::move(wordpiece), AddedTokens(std::move(added)), config.normalization,
                        first, last};
}

}  // namespace mp::model
