#include "mp/model/config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "mp/base/status.h"
#include "mp/files/mapped_file.h"
#include "mp/files/printable.h"
#include "mp/model/text/json_nesting.h"
#include "nlohmann/json.hpp"

namespace mp::model {
namespace {

using Json = nlohmann::json;
using files::Printable;

// Larger sizes are none of a model that fits a machine; products of three of them fit 63 bits.
constexpr int64_t kLargest = int64_t{1} << 20;

// One JSON file; reads its values and says what is wrong with them.
class Settings {
 public:
  static absl::StatusOr<Settings> Load(const std::string& path) {
    MP_ASSIGN_OR_RETURN(const files::MappedFile file, files::MappedFile::Open(path));
    Json json = Json::parse(file.bytes().begin(), file.bytes().end(), nullptr, false);
    if (!json.is_object()) return InvalidArgument(Printable(path), ": is no JSON object");
    if (NestsTooDeeply(file.bytes())) {
      return InvalidArgument(Printable(path), ": is nested too deeply");
    }
    return Settings(path, std::move(json));
  }

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  absl::StatusOr<int64_t> Size(const char* key) const {
    if (!has(key)) return InvalidArgument(Printable(path_), ": \"", key, "\" is missing");
    const Json& value = json_[key];
    if (!value.is_number_integer() || value < 1 || value > kLargest) {
      return Wrong(key, absl::StrCat("a whole number in 1..", kLargest));
    }
    return value.get<int64_t>();
  }
  absl::StatusOr<double> Number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_number()) return Wrong(key, "a number");
    return json_[key].get<double>();
  }
  absl::StatusOr<bool> Flag(const char* key) const {
    if (!has(key)) return false;
    if (!json_[key].is_boolean()) return Wrong(key, "true or false");
    return json_[key].get<bool>();
  }
  // Which of `known` it is; the first where it is missing.
  absl::StatusOr<size_t> Choice(const char* key, absl::Span<const char* const> known) const {
    if (!has(key)) return size_t{0};
    for (size_t i = 0; i < known.size(); ++i) {
      if (json_[key] == known[i]) return i;
    }
    return Unsupported(Printable(path_), ": \"", key, "\" is ", Printable(Text(json_[key])),
                       "; supported: ", absl::StrJoin(known, ", "));
  }
  absl::Status Wrong(const char* key, absl::string_view wanted) const {
    return InvalidArgument(Printable(path_), ": \"", key, "\" is ", Printable(Text(json_[key])),
                           ", must be ", wanted);
  }
  const std::string& path() const { return path_; }

 private:
  Settings(std::string path, Json json) : path_(std::move(path)), json_(std::move(json)) {}
  static std::string Text(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace);
  }

  std::string path_;
  Json json_;
};

absl::Status ReadEncoder(const Settings& settings, EncoderConfig& config) {
  MP_RETURN_IF_ERROR(settings.Choice("model_type", {"bert"}));
  MP_RETURN_IF_ERROR(settings.Choice("position_embedding_type", {"absolute"}));
  MP_ASSIGN_OR_RETURN(config.vocab, settings.Size("vocab_size"));
  MP_ASSIGN_OR_RETURN(config.hidden, settings.Size("hidden_size"));
  MP_ASSIGN_OR_RETURN(config.layers, settings.Size("num_hidden_layers"));
  MP_ASSIGN_OR_RETURN(config.heads, settings.Size("num_attention_heads"));
  MP_ASSIGN_OR_RETURN(config.intermediate, settings.Size("intermediate_size"));
  MP_ASSIGN_OR_RETURN(config.positions, settings.Size("max_position_embeddings"));
  if (settings.has("type_vocab_size")) {
    MP_ASSIGN_OR_RETURN(config.types, settings.Size("type_vocab_size"));
  }
  if (settings.has("embedding_size")) {
    MP_ASSIGN_OR_RETURN(const int64_t size, settings.Size("embedding_size"));
    if (size != config.hidden) {
      return Unsupported(Printable(settings.path()), ": an \"embedding_size\" of ", size,
                         " that is not the hidden_size ", config.hidden);
    }
  }
  MP_ASSIGN_OR_RETURN(const bool decoder, settings.Flag("is_decoder"));
  if (decoder) return Unsupported(Printable(settings.path()), ": \"is_decoder\": encoders only");
  if (config.hidden % config.heads != 0) {
    return settings.Wrong("num_attention_heads",
                          absl::StrCat("a divisor of the hidden_size ", config.hidden));
  }
  if (config.positions < 2) {
    return settings.Wrong("max_position_embeddings", "at least 2, for [CLS] and [SEP]");
  }
  MP_ASSIGN_OR_RETURN(const double epsilon, settings.Number("layer_norm_eps", config.epsilon));
  if (!(epsilon >= 0 && epsilon <= 1)) return settings.Wrong("layer_norm_eps", "in 0..1");
  config.epsilon = static_cast<float>(epsilon);
  MP_ASSIGN_OR_RETURN(const size_t activation, settings.Choice("hidden_act", {"gelu", "relu"}));
  config.activation = activation == 0 ? Activation::kGelu : Activation::kRelu;
  config.max_tokens = config.positions;
  return absl::OkStatus();
}

absl::Status ReadMaxTokens(const Settings& settings, EncoderConfig& config) {
  if (!settings.has("max_seq_length")) return absl::OkStatus();
  MP_ASSIGN_OR_RETURN(const int64_t most, settings.Size("max_seq_length"));
  if (most < 2 || most > config.positions) {
    return settings.Wrong("max_seq_length", absl::StrCat("in 2..", config.positions,
                                                         ", the max_position_embeddings"));
  }
  config.max_tokens = most;
  return absl::OkStatus();
}

// What tokenizers that are used alone go by; some say a number beyond all bounds for none.
absl::Status ReadTokenizerLimit(const Settings& settings, EncoderConfig& config) {
  MP_ASSIGN_OR_RETURN(const double most, settings.Number("model_max_length", 1e30));
  if (most < 2) return settings.Wrong("model_max_length", "at least 2, for [CLS] and [SEP]");
  if (most < static_cast<double>(config.max_tokens)) {
    config.max_tokens = static_cast<int64_t>(most);
  }
  return absl::OkStatus();
}

absl::Status ReadPooling(const Settings& settings, EncoderConfig& config) {
  if (settings.has("word_embedding_dimension")) {
    MP_ASSIGN_OR_RETURN(const int64_t size, settings.Size("word_embedding_dimension"));
    if (size != config.hidden) {
      return settings.Wrong("word_embedding_dimension",
                            absl::StrCat(config.hidden, ", the hidden_size"));
    }
  }
  MP_ASSIGN_OR_RETURN(const bool first, settings.Flag("pooling_mode_cls_token"));
  MP_ASSIGN_OR_RETURN(const bool mean, settings.Flag("pooling_mode_mean_tokens"));
  for (const char* other : {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                            "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"}) {
    MP_ASSIGN_OR_RETURN(const bool wanted, settings.Flag(other));
    if (wanted) {
      return Unsupported(Printable(settings.path()), ": \"", other,
                         "\"; supported: pooling_mode_mean_tokens, pooling_mode_cls_token");
    }
  }
  if (first == mean) {
    return Unsupported(Printable(settings.path()),
                       ": exactly one of pooling_mode_mean_tokens and pooling_mode_cls_token must "
                       "be true");
  }
  config.pooling = first ? Pooling::kFirst : Pooling::kMean;
  return absl::OkStatus();
}

absl::Status ReadIfThere(const std::string& path, EncoderConfig& config,
                         absl::Status (*read)(const Settings&, EncoderConfig&)) {
  if (!files::FileIdOf(path).has_value()) return absl::OkStatus();
  MP_ASSIGN_OR_RETURN(const Settings settings, Settings::Load(path));
  return read(settings, config);
}

// modules.json: what a sentence embedder is made of.  Where the pooling's settings are.
absl::StatusOr<std::string> ReadModules(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/modules.json");
  const std::string usual = "1_Pooling";
  if (!files::FileIdOf(path).has_value()) return usual;
  MP_ASSIGN_OR_RETURN(const files::MappedFile file, files::MappedFile::Open(path));
  const Json modules = Json::parse(file.bytes().begin(), file.bytes().end(), nullptr, false);
  if (!modules.is_array()) return InvalidArgument(Printable(path), ": is no JSON array");
  std::string pooling = usual;
  for (const Json& module : modules) {
    const bool sound = module.is_object() && module.contains("type") &&
                       module["type"].is_string() && module.contains("path") &&
                       module["path"].is_string();
    if (!sound) return InvalidArgument(Printable(path), ": a module has no \"type\" and \"path\"");
    const auto type = module["type"].get<std::string>(), place = module["path"].get<std::string>();
    const absl::string_view name = absl::string_view(type).substr(type.rfind('.') + 1);
    if (name == "Pooling") {
      pooling = place;
    } else if (name != "Normalize" && !(name == "Transformer" && place.empty())) {
      return Unsupported(Printable(path), ": the module ", Printable(type), " in \"",
                         Printable(place),
                         "\"; supported: Transformer in the folder itself, Pooling, Normalize");
    }
  }
  return pooling;
}

}  // namespace

absl::StatusOr<EncoderConfig> LoadConfig(const std::string& folder) {
  EncoderConfig config;
  MP_ASSIGN_OR_RETURN(const Settings settings,
                      Settings::Load(absl::StrCat(folder, "/config.json")));
  MP_RETURN_IF_ERROR(ReadEncoder(settings, config));
  MP_ASSIGN_OR_RETURN(const std::string pooling, ReadModules(folder));
  MP_RETURN_IF_ERROR(
      ReadIfThere(absl::StrCat(folder, "/tokenizer_config.json"), config, ReadTokenizerLimit));
  MP_RETURN_IF_ERROR(
      ReadIfThere(absl::StrCat(folder, "/sentence_bert_config.json"), config, ReadMaxTokens));
  MP_RETURN_IF_ERROR(
      ReadIfThere(absl::StrCat(folder, "/", pooling, "/config.json"), config, ReadPooling));
  return config;
}

int64_t MostRanks(const EncoderConfig& config) {
  return std::min({config.heads, config.intermediate, config.hidden});
}

absl::Status CheckRanks(const EncoderConfig& config, int ranks) {
  if (ranks < 1) return InvalidArgument(ranks, " ranks: at least 1 is needed");
  const int64_t most = MostRanks(config);
  if (ranks <= most) return absl::OkStatus();
  return InvalidArgument(ranks, " ranks for ", config.heads, " attention heads, a hidden size of ",
                         config.hidden, " and an intermediate size of ", config.intermediate,
                         ": at most ", most, most == 1 ? " rank" : " ranks", " can share them");
}

}  // namespace mp::model
