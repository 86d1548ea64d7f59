// A small encoder made from a seed, in the layout of a published model folder; and what it makes of
// a text, worked out in double precision by plain loops over whole, unsplit weights.
#ifndef MP_TESTS_MODEL_TINY_MODEL_H_
#define MP_TESTS_MODEL_TINY_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mp/dtype.h"
#include "mp/model/config.h"

namespace mp::model {

struct Weights {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct TinyModel {
  EncoderConfig config;
  std::map<std::string, Weights> weights;  // by the names of model.safetensors

  // `config` with every weight drawn from the seed.  All values are bf16's and f16's too.
  static TinyModel Make(const EncoderConfig& config, uint64_t seed);

  // The embedding, of length 1.
  std::vector<double> Embed(const std::vector<int32_t>& ids) const;

  std::string ConfigJson() const;
  // model.safetensors in one dtype; every name begins with `prefix`.
  std::string Safetensors(DType dtype = DType::kF32, const std::string& prefix = "") const;
  // "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", then letters; as many as the config says.
  std::string Vocabulary() const;
  // All of it, with sentence_bert_config.json and 1_Pooling/config.json.
  void Write(const std::string& folder) const;
};

// Sizes of which few divide by few ranks.
EncoderConfig TinyConfig();

// Texts of 1..longest tokens, from a seed.
std::vector<std::vector<int32_t>> RandomTexts(const EncoderConfig& config, int count,
                                              int64_t longest, uint64_t seed);

void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace mp::model

#endif  // MP_TESTS_MODEL_TINY_MODEL_H_
