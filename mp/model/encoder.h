// One rank's part of a BERT-family encoder: attention heads and feed-forward columns are split over
// the ranks, and every rank queues the same operations.
//
//   ids -> embedding columns -> AllGather -> norm
//   each layer:  query, key, value (column-parallel) -> attention -> output (row-parallel)
//                -> AllReduce -> norm -> up (column-parallel) -> down (row-parallel) -> AllReduce
//                -> norm
//   -> pooled columns -> Gather on rank 0
//
// All of it are kernels and operations on the rank's streams; nothing waits.  Of two batches at
// once each one's AllReduces run beside the other's kernels, so that no rank stands still for
// another that is a little later.
//
// Errors.    Those of kernels and operations, at the stream's next Synchronize.
// Threads.   The thread that drives the rank.
// Ownership. The World outlives it; what it has queued is done before it goes.
#ifndef MP_MODEL_ENCODER_H_
#define MP_MODEL_ENCODER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mp/buffer.h"
#include "mp/model/batch.h"
#include "mp/model/checkpoint.h"
#include "mp/model/config.h"
#include "mp/model/shard.h"
#include "mp/tensor.h"
#include "mp/work.h"
#include "mp/world.h"

namespace mp::model {

struct EncoderOptions {
  // Host threads of this rank.
  int threads = 1;
  // The most tokens of a batch, and of one text.
  int64_t batch_tokens = 1024;
  int64_t longest = 512;
  // The most batches at once.
  int passes = 1;
  // f32 [passes * batch_tokens, hidden], one for all ranks: their embedding columns are joined in
  // it.
  TensorView joined;
};

// One batch on its way through the encoder.
struct EncoderPass {
  std::shared_ptr<const TokenBatch> batch;
  // f32 [texts, hidden]: gets each text's pooled row on rank 0 and is not looked at elsewhere.
  TensorView output;
};

class Encoder {
 public:
  static absl::StatusOr<std::unique_ptr<Encoder>> Create(Rank& rank, const EncoderConfig& config,
                                                         const Checkpoint& checkpoint,
                                                         const EncoderOptions& options);

  // Queues 1..passes batches at once; `pooled`, which follows each of them, is told that its output
  // is there for what the caller queues now.  InvalidArgument: there are more, or one is empty or
  // larger than the options say; nothing was queued.
  absl::Status Enqueue(absl::Span<const EncoderPass> passes,
                       const std::function<absl::Status(const EncoderPass&)>& pooled);

 private:
  Encoder(Rank& rank, const EncoderConfig& config, EncoderShard shard,
          const EncoderOptions& options)
      : rank_(rank), config_(config), options_(options), shard_(std::move(shard)) {}
  absl::Status Allocate();
  absl::Status CheckBatch(const TokenBatch& batch) const;
  // What a batch has for itself: rows of the hidden size that all ranks have alike, partial sums,
  // and the end of a block that is still to come, when they are summed.
  struct Lane {
    EncoderPass pass;
    Buffer x, y;
    float* joined = nullptr;
    Work sum;
    const LinearWeights* linear = nullptr;  // whose bias is left out of the sum; null: no end
    const NormWeights* norm = nullptr;

    int64_t tokens() const { return pass.batch->token_count(); }
  };
  using Lanes = absl::Span<Lane>;

  absl::Status EnqueueEmbeddings(Lane& lane);
  absl::Status EnqueueAttention(const LayerShard& layer, Lane& lane);
  absl::Status EnqueueFeedForward(const LayerShard& layer, Lane& lane);
  absl::Status EnqueuePooling(const Lane& lane);
  // What follows a product: nothing, where the sum over ranks comes first.
  enum class Ending { kNone, kBias, kActivation };
  // out = in times a linear layer's weights.
  template <typename ProductKernel>
  absl::Status EnqueueProduct(const LinearWeights& linear, const Buffer& in, const Buffer& out,
                              int64_t tokens, Ending ending);
  // Sums y over the ranks; x = norm(x + y + bias) follows with the next EnqueueEndOfBlock.
  absl::Status EnqueueSum(const LinearWeights& linear, const NormWeights& norm, Lane& lane);
  absl::Status EnqueueEndOfBlock(Lane& lane);

  Rank& rank_;
  const EncoderConfig config_;
  const EncoderOptions options_;
  const EncoderShard shard_;
  std::vector<Lane> lanes_;
  bool overlap_ = false;  // there are several batches on the way
  // [batch_tokens, ..]: this rank's queries, keys and values, attention's output, and columns
  // between up and down.
  Buffer query_key_value_, context_, up_;
  Buffer pooled_;   // [texts, this rank's hidden columns]
  Buffer scratch_;  // attention's
};

}  // namespace mp::model

#endif  // MP_MODEL_ENCODER_H_
