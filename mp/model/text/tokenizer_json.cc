#include "mp/model/text/tokenizer_json.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mp/base/status.h"
#include "mp/files/printable.h"
#include "mp/model/text/json_value.h"

namespace mp::model {
namespace {

using Json = nlohmann::json;
using files::Printable;

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
constexpr int32_t kLongestWord = 10000;  // a word is looked up from each of its characters on

// The object under `key`, if its type is one of ours.
absl::StatusOr<JsonValue> Section(const JsonValue& file, absl::string_view key,
                                  std::initializer_list<absl::string_view> types) {
  if (!file.Has(key)) {
    return Unsupported(Printable(file.path()), ": has no \"", key,
                       "\"; supported: ", absl::StrJoin(types, ", "));
  }
  MP_ASSIGN_OR_RETURN(JsonValue section, file.At(key));
  MP_RETURN_IF_ERROR(section.OneOfAt("type", types));
  return section;
}

absl::StatusOr<std::vector<std::string>> ReadVocabulary(const JsonValue& vocab) {
  if (!vocab.json().is_object()) return vocab.Wrong("an object");
  std::vector<std::string> tokens(vocab.json().size());
  for (const auto& [token, id] : vocab.json().items()) {
    if (token.empty()) return vocab.Because("has an empty token");
    if (!id.is_number_unsigned() || id >= tokens.size()) {
      return vocab.Because(absl::StrCat("has \"", Printable(token), "\" with the id ",
                                        Printable(id.dump()), ", must be in 0..", tokens.size() - 1,
                                        " for ", tokens.size(), " tokens"));
    }
    std::string& place = tokens[id.get<size_t>()];
    if (!place.empty()) {
      return vocab.Because(absl::StrCat("has the id ", id.get<size_t>(), " twice, for \"",
                                        Printable(place), "\" and \"", Printable(token), "\""));
    }
    place = token;
  }
  return tokens;
}

absl::StatusOr<WordPiece> ReadModel(const JsonValue& file) {
  MP_ASSIGN_OR_RETURN(const JsonValue model, file.At("model"));
  // Older files leave the type out, and no other model has this key.
  if (model.Has("type") || !model.Has("max_input_chars_per_word")) {
    MP_RETURN_IF_ERROR(model.OneOfAt("type", {"WordPiece"}));
  }
  WordPieceOptions options;
  MP_ASSIGN_OR_RETURN(options.unknown, model.TextAt("unk_token"));
  MP_ASSIGN_OR_RETURN(options.prefix, model.TextAt("continuing_subword_prefix"));
  MP_ASSIGN_OR_RETURN(options.longest_word,
                      model.WholeAt("max_input_chars_per_word", 1, kLongestWord));
  MP_ASSIGN_OR_RETURN(const JsonValue vocab, model.At("vocab"));
  MP_ASSIGN_OR_RETURN(std::vector<std::string> tokens, ReadVocabulary(vocab));
  auto wordpiece = WordPiece::Create(std::move(tokens), std::move(options));
  if (!wordpiece.ok()) return vocab.Because(wordpiece.status().message());
  return wordpiece;
}

absl::StatusOr<Normalization> ReadNormalizer(const JsonValue& file) {
  MP_ASSIGN_OR_RETURN(const JsonValue normalizer, Section(file, "normalizer", {"BertNormalizer"}));
  Normalization normalization;
  MP_ASSIGN_OR_RETURN(normalization.clean_text, normalizer.FlagAt("clean_text"));
  MP_ASSIGN_OR_RETURN(normalization.separate_ideographs, normalizer.FlagAt("handle_chinese_chars"));
  MP_ASSIGN_OR_RETURN(normalization.lowercase, normalizer.FlagAt("lowercase"));
  normalization.strip_accents = normalization.lowercase;
  if (normalizer.Has("strip_accents")) {
    MP_ASSIGN_OR_RETURN(normalization.strip_accents, normalizer.FlagAt("strip_accents"));
  }
  return normalization;
}

// Checks the token's id: the vocabulary's, or else the next after the vocabulary, `next`.
absl::StatusOr<AddedToken> ReadAddedToken(const JsonValue& value, const WordPiece& wordpiece,
                                          int32_t next) {
  for (const char* key : {"normalized", "single_word"}) {
    MP_ASSIGN_OR_RETURN(const bool is_set, value.FlagAt(key));
    if (is_set) {
      MP_ASSIGN_OR_RETURN(const JsonValue flag, value.At(key));
      return flag.Other("false");
    }
  }
  AddedToken token;
  MP_ASSIGN_OR_RETURN(token.text, value.TextAt("content"));
  if (token.text.empty()) return value.Because("has no content");
  MP_ASSIGN_OR_RETURN(token.id, value.WholeAt("id", 0, kMost));
  const int32_t expected = wordpiece.IdOf(token.text).value_or(next);
  if (token.id != expected) {
    return value.Because(absl::StrCat("gives \"", Printable(token.text), "\" the id ", token.id,
                                      ", must be ", expected));
  }
  return token;
}

absl::StatusOr<AddedTokens> ReadAddedTokens(const JsonValue& file, const WordPiece& wordpiece) {
  if (!file.Has("added_tokens")) return AddedTokens();
  MP_ASSIGN_OR_RETURN(const JsonValue list, file.At("added_tokens"));
  MP_ASSIGN_OR_RETURN(const std::vector<JsonValue> values, list.Elements());
  std::vector<AddedToken> tokens;
  absl::flat_hash_set<std::string> texts;
  auto next = static_cast<int32_t>(wordpiece.tokens().size());
  for (const JsonValue& value : values) {
    MP_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(value, wordpiece, next));
    if (!texts.insert(token.text).second) {
      return value.Because(absl::StrCat("is \"", Printable(token.text), "\" once more"));
    }
    if (token.id == next) ++next;
    tokens.push_back(std::move(token));
  }
  return AddedTokens(std::move(tokens));
}

bool IsId(const Json& json) { return json.is_number_unsigned() && json.get<uint64_t>() <= kMost; }

// One token, as the two processors name it.
struct Edge {
  std::string text;
  int32_t id = 0;
};

// ["[SEP]", 102]
absl::StatusOr<Edge> ReadPair(const JsonValue& processor, absl::string_view key) {
  MP_ASSIGN_OR_RETURN(const JsonValue pair, processor.At(key));
  const Json& json = pair.json();
  if (!json.is_array() || json.size() != 2 || !json[0].is_string() || !IsId(json[1])) {
    return pair.Wrong("a token and its id");
  }
  return Edge{json[0].get<std::string>(), json[1].get<int32_t>()};
}

// {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, and in "special_tokens" its id.
absl::StatusOr<Edge> ReadPiece(const JsonValue& processor, const JsonValue& piece) {
  constexpr absl::string_view kSupported = "[CLS] $A [SEP], all of type 0";
  if (!piece.Has("SpecialToken")) return piece.Other(kSupported);
  MP_ASSIGN_OR_RETURN(const JsonValue token, piece.At("SpecialToken"));
  MP_ASSIGN_OR_RETURN(const int32_t type, token.WholeAt("type_id", 0, kMost));
  if (type != 0) return piece.Other(kSupported);
  Edge edge;
  MP_ASSIGN_OR_RETURN(edge.text, token.TextAt("id"));
  MP_ASSIGN_OR_RETURN(const JsonValue all, processor.At("special_tokens"));
  MP_ASSIGN_OR_RETURN(const JsonValue special, all.At(edge.text));
  MP_ASSIGN_OR_RETURN(const JsonValue ids, special.At("ids"));
  const Json& json = ids.json();
  if (!json.is_array() || json.size() != 1 || !IsId(json[0])) return ids.Other("one id");
  edge.id = json[0].get<int32_t>();
  return edge;
}

absl::StatusOr<std::vector<Edge>> ReadTemplate(const JsonValue& processor) {
  MP_ASSIGN_OR_RETURN(const JsonValue single, processor.At("single"));
  MP_ASSIGN_OR_RETURN(const std::vector<JsonValue> pieces, single.Elements());
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  if (pieces.size() != 3 || pieces[1].json() != text) {
    return single.Other("[CLS] $A [SEP], all of type 0");
  }
  MP_ASSIGN_OR_RETURN(Edge first, ReadPiece(processor, pieces[0]));
  MP_ASSIGN_OR_RETURN(Edge last, ReadPiece(processor, pieces[2]));
  return std::vector<Edge>{std::move(first), std::move(last)};
}

absl::StatusOr<std::vector<Edge>> ReadBert(const JsonValue& processor) {
  MP_ASSIGN_OR_RETURN(Edge first, ReadPair(processor, "cls"));
  MP_ASSIGN_OR_RETURN(Edge last, ReadPair(processor, "sep"));
  return std::vector<Edge>{std::move(first), std::move(last)};
}

bool Has(const TokenizerParts& parts, const Edge& edge) {
  const std::vector<AddedToken>& added = parts.added.tokens();
  return parts.wordpiece.IdOf(edge.text) == edge.id ||
         std::any_of(added.begin(), added.end(), [&edge](const AddedToken& token) {
           return token.id == edge.id && token.text == edge.text;
         });
}

absl::Status ReadEdges(const JsonValue& file, TokenizerParts& parts) {
  MP_ASSIGN_OR_RETURN(const JsonValue processor,
                      Section(file, "post_processor", {"BertProcessing", "TemplateProcessing"}));
  const bool is_template = processor.json()["type"] == "TemplateProcessing";
  MP_ASSIGN_OR_RETURN(const std::vector<Edge> edges,
                      is_template ? ReadTemplate(processor) : ReadBert(processor));
  for (const Edge& edge : edges) {
    if (Has(parts, edge)) continue;
    return processor.Because(absl::StrCat("gives \"", Printable(edge.text), "\" the id ", edge.id,
                                          ", which is not that token's"));
  }
  parts.first = edges[0].id;
  parts.last = edges[1].id;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerParts> ReadTokenizerJson(const std::string& path) {
  MP_ASSIGN_OR_RETURN(const JsonValue file, JsonValue::Load(path));
  MP_ASSIGN_OR_RETURN(WordPiece wordpiece, ReadModel(file));
  MP_ASSIGN_OR_RETURN(AddedTokens added, ReadAddedTokens(file, wordpiece));
  MP_ASSIGN_OR_RETURN(const Normalization normalization, ReadNormalizer(file));
  MP_RETURN_IF_ERROR(Section(file, "pre_tokenizer", {"BertPreTokenizer"}));
  TokenizerParts parts{std::move(wordpiece), std::move(added), normalization};
  MP_RETURN_IF_ERROR(ReadEdges(file, parts));
  return parts;
}

}  // namespace mp::model
