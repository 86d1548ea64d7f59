#include "tests/model/tiny_model.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "mp/base/float16.h"

namespace mp::model {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

size_t At(int64_t i) { return static_cast<size_t>(i); }

// The unsplit encoder.
class Forward {
 public:
  explicit Forward(const TinyModel& model) : model_(model), config_(model.config) {}

  Row Run(const std::vector<int32_t>& ids) const {
    Rows x;
    for (size_t i = 0; i < ids.size(); ++i) {
      Row row(At(config_.hidden));
      for (size_t j = 0; j < row.size(); ++j) {
        row[j] = Get("embeddings.word_embeddings.weight", At(ids[i]), j) +
                 Get("embeddings.position_embeddings.weight", i, j) +
                 Get("embeddings.token_type_embeddings.weight", 0, j);
      }
      x.push_back(Norm("embeddings.LayerNorm", row));
    }
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      x = Layer(absl::StrCat("encoder.layer.", layer, "."), x);
    }
    return Unit(Pooled(x));
  }

 private:
  double Get(const std::string& name, size_t row, size_t column) const {
    const Weights& weights = model_.weights.at(name);
    const size_t columns = weights.shape.size() == 1 ? 1 : At(weights.shape[1]);
    return weights.values[row * columns + column];
  }
  Row Norm(const std::string& name, const Row& x) const {
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    Row out;
    for (size_t i = 0; i < x.size(); ++i) {
      out.push_back((x[i] - mean) / std::sqrt(variance + static_cast<double>(config_.epsilon)) *
                        Get(name + ".weight", i, 0) +
                    Get(name + ".bias", i, 0));
    }
    return out;
  }
  Row Linear(const std::string& name, const Row& x) const {
    Row out;
    for (int64_t o = 0; o < model_.weights.at(name + ".weight").shape[0]; ++o) {
      double sum = Get(name + ".bias", At(o), 0);
      for (size_t i = 0; i < x.size(); ++i) sum += x[i] * Get(name + ".weight", At(o), i);
      out.push_back(sum);
    }
    return out;
  }
  Rows Linear(const std::string& name, const Rows& x) const {
    Rows out;
    for (const Row& row : x) out.push_back(Linear(name, row));
    return out;
  }
  Rows Attention(const std::string& name, const Rows& x) const {
    const Rows query = Linear(name + "query", x), key = Linear(name + "key", x),
               value = Linear(name + "value", x);
    const size_t size = At(config_.head_size());
    Rows out(x.size(), Row(At(config_.hidden)));
    for (size_t head = 0; head < At(config_.heads); ++head) {
      for (size_t i = 0; i < x.size(); ++i) {
        Row scores;
        for (size_t j = 0; j < x.size(); ++j) {
          double score = 0;
          for (size_t d = head * size; d < (head + 1) * size; ++d) score += query[i][d] * key[j][d];
          scores.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
        }
        double sum = 0;
        for (const double score : scores) sum += score;
        for (size_t j = 0; j < x.size(); ++j) {
          for (size_t d = head * size; d < (head + 1) * size; ++d) {
            out[i][d] += scores[j] / sum * value[j][d];
          }
        }
      }
    }
    return out;
  }
  Rows AddNorm(const std::string& name, const Rows& x, const Rows& y) const {
    Rows out;
    for (size_t i = 0; i < x.size(); ++i) {
      Row sum = x[i];
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += y[i][j];
      out.push_back(Norm(name, sum));
    }
    return out;
  }
  Rows Layer(const std::string& name, const Rows& x) const {
    const std::string attention = name + "attention.output.";
    const Rows context = Attention(name + "attention.self.", x);
    const Rows middle = AddNorm(attention + "LayerNorm", x, Linear(attention + "dense", context));
    Rows up = Linear(name + "intermediate.dense", middle);
    for (Row& row : up) {
      for (double& v : row) v = Activate(v);
    }
    return AddNorm(name + "output.LayerNorm", middle, Linear(name + "output.dense", up));
  }
  double Activate(double x) const {
    if (config_.activation == Activation::kRelu) return std::max(x, 0.0);
    return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  }
  Row Pooled(const Rows& x) const {
    if (config_.pooling == Pooling::kFirst) return x[0];
    Row mean(x[0].size());
    for (const Row& row : x) {
      for (size_t i = 0; i < row.size(); ++i) mean[i] += row[i] / static_cast<double>(x.size());
    }
    return mean;
  }
  static Row Unit(Row x) {
    double square = 0;
    for (const double v : x) square += v * v;
    for (double& v : x) v /= std::sqrt(square);
    return x;
  }

  const TinyModel& model_;
  const EncoderConfig& config_;
};

void AppendElement(std::string& bytes, float value, DType dtype) {
  const uint16_t half = dtype == DType::kF16 ? F32ToF16(value) : F32ToBF16(value);
  const size_t size = dtype == DType::kF32 ? 4 : 2, begin = bytes.size();
  bytes.resize(begin + size);
  std::memcpy(bytes.data() + begin, dtype == DType::kF32 ? static_cast<const void*>(&value) : &half,
              size);
}

}  // namespace

TinyModel TinyModel::Make(const EncoderConfig& config, uint64_t seed) {
  TinyModel model;
  model.config = config;
  std::mt19937_64 random(seed);
  // Multiples of 1/64 in (-2, 2): 7 bits.
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape, double scale,
                       double offset) {
    Weights weights{shape, {}};
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    for (int64_t i = 0; i < count; ++i) {
      const auto drawn = static_cast<double>(static_cast<int64_t>(random() % 127) - 63) / 64;
      weights.values.push_back(BF16ToF32(F32ToBF16(static_cast<float>(offset + scale * drawn))));
    }
    model.weights[name] = std::move(weights);
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".weight", {config.hidden}, 0.5, 1);
    add(name + ".bias", {config.hidden}, 0.25, 0);
  };
  const auto linear = [&](const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", {out, in}, 0.5, 0);
    add(name + ".bias", {out}, 0.5, 0);
  };
  add("embeddings.word_embeddings.weight", {config.vocab, config.hidden}, 1, 0);
  add("embeddings.position_embeddings.weight", {config.positions, config.hidden}, 1, 0);
  add("embeddings.token_type_embeddings.weight", {2, config.hidden}, 1, 0);
  norm("embeddings.LayerNorm");
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("encoder.layer.", i, ".");
    for (const char* part : {"query", "key", "value"}) {
      linear(absl::StrCat(layer, "attention.self.", part), config.hidden, config.hidden);
    }
    linear(layer + "attention.output.dense", config.hidden, config.hidden);
    norm(layer + "attention.output.LayerNorm");
    linear(layer + "intermediate.dense", config.intermediate, config.hidden);
    linear(layer + "output.dense", config.hidden, config.intermediate);
    norm(layer + "output.LayerNorm");
  }
  return model;
}

std::vector<double> TinyModel::Embed(const std::vector<int32_t>& ids) const {
  return Forward(*this).Run(ids);
}

std::string TinyModel::ConfigJson() const {
  return absl::StrCat(R"({"model_type": "bert", "hidden_act": ")",
                      config.activation == Activation::kRelu ? "relu" : "gelu",
                      R"(", "hidden_size": )", config.hidden, R"(, "intermediate_size": )",
                      config.intermediate, R"(, "num_attention_heads": )", config.heads,
                      R"(, "num_hidden_layers": )", config.layers, R"(, "vocab_size": )",
                      config.vocab, R"(, "max_position_embeddings": )", config.positions,
                      R"(, "layer_norm_eps": )", config.epsilon, "}");
}

std::string TinyModel::Safetensors(DType dtype, const std::string& prefix) const {
  const char* name_of_dtype = dtype == DType::kF32 ? "F32" : dtype == DType::kF16 ? "F16" : "BF16";
  std::string data;
  std::vector<std::string> entries;
  for (const auto& [name, tensor] : weights) {
    const size_t begin = data.size();
    for (const float value : tensor.values) AppendElement(data, value, dtype);
    entries.push_back(absl::StrCat("\"", prefix, name, "\":{\"dtype\":\"", name_of_dtype,
                                   "\",\"shape\":[", absl::StrJoin(tensor.shape, ","),
                                   "],\"data_offsets\":[", begin, ",", data.size(), "]}"));
  }
  const std::string header = absl::StrCat("{", absl::StrJoin(entries, ","), "}");
  std::string file(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(file.data(), &size, 8);
  return absl::StrCat(file, header, data);
}

std::string TinyModel::Vocabulary() const {
  std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int64_t i = 5; i < config.vocab; ++i) {
    const auto letter = static_cast<char>('a' + (i - 5) / 2 % 26);
    absl::StrAppend(&lines, i % 2 == 0 ? "##" : "", std::string(At((i - 5) / 52) + 1, letter),
                    "\n");
  }
  return lines;
}

void TinyModel::Write(const std::string& folder) const {
  mkdir(folder.c_str(), 0777);
  mkdir((folder + "/1_Pooling").c_str(), 0777);
  WriteFile(folder + "/config.json", ConfigJson());
  WriteFile(folder + "/model.safetensors", Safetensors());
  WriteFile(folder + "/vocab.txt", Vocabulary());
  WriteFile(folder + "/sentence_bert_config.json",
            absl::StrCat(R"({"max_seq_length": )", config.max_tokens, "}"));
  const bool first = config.pooling == Pooling::kFirst;
  WriteFile(folder + "/1_Pooling/config.json",
            absl::StrCat(R"({"pooling_mode_cls_token": )", first ? "true" : "false",
                         R"(, "pooling_mode_mean_tokens": )", first ? "false" : "true", "}"));
}

EncoderConfig TinyConfig() {
  EncoderConfig config;
  config.vocab = 41;
  config.hidden = 35;
  config.heads = 5;
  config.layers = 2;
  config.intermediate = 23;
  config.positions = 19;
  config.max_tokens = 17;
  config.epsilon = 1e-6f;
  return config;
}

std::vector<std::vector<int32_t>> RandomTexts(const EncoderConfig& config, int count,
                                              int64_t longest, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<int32_t>> texts;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> ids(1 + random() % static_cast<uint64_t>(longest));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() % static_cast<uint64_t>(config.vocab));
    }
    texts.push_back(std::move(ids));
  }
  return texts;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr) << path;
  EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  EXPECT_EQ(std::fclose(file), 0);
}

}  // namespace mp::model
