// What a model folder says of its encoder: config.json, and where they are there the files that
// sentence embedders add (modules.json, sentence_bert_config.json, tokenizer_config.json's limit,
// the pooling's config.json).
//
// Errors. Name the file, the key and the values.  Unsupported: an encoder that is none of BERT's
//         kind, another activation, another pooling, another module.
#ifndef MP_MODEL_CONFIG_H_
#define MP_MODEL_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mp::model {

enum class Activation { kGelu, kRelu };

// How the rows of a text's tokens become one row.
enum class Pooling { kMean, kFirst };

struct EncoderConfig {
  int64_t vocab = 0;   // token ids are 0..vocab-1
  int64_t hidden = 0;  // columns of a row
  int64_t layers = 0;
  int64_t heads = 0;         // divide hidden
  int64_t intermediate = 0;  // columns between the two products of a feed-forward block
  int64_t positions = 0;     // the most tokens that the weights allow
  int64_t types = 2;         // of tokens; texts are of type 0
  int64_t max_tokens = 0;  // the most tokens that the model was made for, [CLS] and [SEP] included
  float epsilon = 1e-12f;  // of the layer norms
  Activation activation = Activation::kGelu;
  Pooling pooling = Pooling::kMean;

  int64_t head_size() const { return hidden / heads; }
};

absl::StatusOr<EncoderConfig> LoadConfig(const std::string& folder);

// The most ranks that can share the encoder: each needs a head, and a column of either size.
int64_t MostRanks(const EncoderConfig& config);

// OK for 1..MostRanks.
absl::Status CheckRanks(const EncoderConfig& config, int ranks);

}  // namespace mp::model

#endif  // MP_MODEL_CONFIG_H_
