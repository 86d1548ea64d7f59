// Texts as token ids, several to one pass of the encoder, one behind the other without padding.
//
//   std::vector<TokenBatch> batches = MakeBatches(texts, 1024);
//   batches[0].offsets   // {0, 5, 12}: rows 0..4 are the first text's, 5..11 the second's
//
// Threads. Values.
#ifndef MP_MODEL_BATCH_H_
#define MP_MODEL_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace mp::model {

struct TokenBatch {
  std::vector<int32_t> ids;      // [tokens]
  std::vector<int64_t> offsets;  // [texts + 1]: where each text begins, and the end
  std::vector<size_t> texts;     // [texts]: which of the texts given it is

  int64_t token_count() const { return static_cast<int64_t>(ids.size()); }
  int64_t text_count() const { return static_cast<int64_t>(texts.size()); }
  int64_t length(int64_t i) const {
    return offsets[static_cast<size_t>(i) + 1] - offsets[static_cast<size_t>(i)];
  }
};

// All texts in batches of at most `most_tokens` each, longest first: texts of a batch are of about
// one length, so that its work divides evenly.  A longer text is a batch of its own.  No text is
// empty.
std::vector<TokenBatch> MakeBatches(absl::Span<const std::vector<int32_t>> texts,
                                    int64_t most_tokens);

}  // namespace mp::model

#endif  // MP_MODEL_BATCH_H_
