// Multi-head self-attention of the texts of a batch, for the heads of one rank.
#ifndef MP_MODEL_ATTENTION_H_
#define MP_MODEL_ATTENTION_H_

#include <cstdint>
#include <memory>

#include "mp/model/batch.h"

namespace mp::model {

// A kernel: for every text and head, out = softmax(query key^T / sqrt(size)) value.
//
//   query_key_value [tokens, 3 * heads * size]: all heads' queries, then keys, then values
//   out             [tokens, heads * size]
//   scratch         [threads * ScratchFloats(longest, size)], longest being the longest text's
//   tokens
struct Attention {
  static constexpr char kName[] = "Attention";

  std::shared_ptr<const TokenBatch> batch;
  int64_t heads;
  int64_t size;
  int threads;
  const float* query_key_value;
  float* out;
  float* scratch;

  void operator()() const;

  static int64_t ScratchFloats(int64_t longest, int64_t size);

 private:
  void OneText(int64_t text, int64_t head, float* own) const;
};

}  // namespace mp::model

#endif  // MP_MODEL_ATTENTION_H_
