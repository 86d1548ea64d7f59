// One rank's part of an encoder's weights, on the rank's device.
//
//   what                                 split                                a rank has
//   embeddings (word, position, type 0)  columns of the hidden size           [.., hidden columns]
//   query, key, value                    rows, by heads                       [3 * heads * size,
//   hidden] attention output                     columns, by the same heads           [hidden,
//   heads * size] up (intermediate)                    rows [columns, hidden] down (output) columns
//   [hidden, columns] norms, biases of summed outputs      not: every rank has all [hidden]
//
// The slices are those of split.h.  f16 and bf16 weights are widened to f32.
//
// Errors.    As Device::Allocate's.
// Ownership. Move-only; the device outlives it.
#ifndef MP_MODEL_SHARD_H_
#define MP_MODEL_SHARD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "mp/buffer.h"
#include "mp/model/checkpoint.h"
#include "mp/model/config.h"
#include "mp/model/rows.h"
#include "mp/model/split.h"
#include "mp/world.h"

namespace mp::model {

struct NormWeights {
  Buffer weight, bias;

  LayerNorm With(float epsilon) const {
    return {static_cast<const float*>(weight.data()), static_cast<const float*>(bias.data()),
            epsilon};
  }
};

struct LinearWeights {
  Buffer weight, bias;

  const float* weights() const { return static_cast<const float*>(weight.data()); }
  const float* biases() const { return static_cast<const float*>(bias.data()); }
};

struct LayerShard {
  LinearWeights query_key_value, attention_output, up, down;
  NormWeights attention_norm, output_norm;
};

struct EncoderShard {
  Slice heads, columns, intermediate;  // of the config's heads, hidden and intermediate size
  Buffer words, positions, type;
  NormWeights norm;
  std::vector<LayerShard> layers;

  // Reads the part of `rank` of all its World's ranks; returns when it is there.
  static absl::StatusOr<EncoderShard> Load(Rank& rank, const Checkpoint& checkpoint,
                                           const EncoderConfig& config);
};

}  // namespace mp::model

#endif  // MP_MODEL_SHARD_H_
