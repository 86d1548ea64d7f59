// One rank's part of a BERT-family encoder: attention heads and feed-forward columns are split over
// the ranks, and every rank queues the same operations.
//
//   ids -> embedding columns -> AllGather -> norm
//   each layer:  query, key, value (column-parallel) -> attention -> output (row-parallel)
//                -> AllReduce -> norm -> up (column-parallel) -> down (row-parallel) -> AllReduce
//                -> norm
//   -> pooled columns -> Gather on rank 0
//
// All of it are kernels and operations on the rank's stream; nothing waits.
//
// Errors.    Those of kernels and operations, at the stream's next Synchronize.
// Threads.   The thread that drives the rank.
// Ownership. The World outlives it; what it has queued is done before it goes.
#ifndef MP_MODEL_ENCODER_H_
#define MP_MODEL_ENCODER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/buffer.h"
#include "mp/model/batch.h"
#include "mp/model/checkpoint.h"
#include "mp/model/config.h"
#include "mp/model/shard.h"
#include "mp/tensor.h"
#include "mp/world.h"

namespace mp::model {

struct EncoderOptions {
  // Host threads of this rank.
  int threads = 1;
  // The most tokens of a batch, and of one text.
  int64_t batch_tokens = 1024;
  int64_t longest = 512;
  // f32 [batch_tokens, hidden], one for all ranks: their embedding columns are joined in it.
  TensorView joined;
};

class Encoder {
 public:
  static absl::StatusOr<std::unique_ptr<Encoder>> Create(Rank& rank, const EncoderConfig& config,
                                                         const Checkpoint& checkpoint,
                                                         const EncoderOptions& options);

  // Queues one batch; `output`, f32 [texts, hidden], gets each text's pooled row on rank 0 and is
  // not looked at elsewhere.  InvalidArgument: the batch is empty, or larger than the options say.
  absl::Status Enqueue(std::shared_ptr<const TokenBatch> batch, const TensorView& output);

 private:
  Encoder(Rank& rank, const EncoderConfig& config, EncoderShard shard,
          const EncoderOptions& options)
      : rank_(rank), config_(config), options_(options), shard_(std::move(shard)) {}
  absl::Status Allocate();
  absl::Status CheckBatch(const TokenBatch& batch) const;
  absl::Status EnqueueEmbeddings(const std::shared_ptr<const TokenBatch>& batch);
  absl::Status EnqueueLayer(const LayerShard& layer,
                            const std::shared_ptr<const TokenBatch>& batch);
  absl::Status EnqueuePooling(const std::shared_ptr<const TokenBatch>& batch,
                              const TensorView& output);
  // What follows a product: nothing, where the sum over ranks comes first.
  enum class Ending { kNone, kBias, kActivation };
  // out = in times a linear layer's weights.
  template <typename ProductKernel>
  absl::Status EnqueueProduct(const LinearWeights& linear, const Buffer& in, const Buffer& out,
                              int64_t tokens, Ending ending);
  // Sums y over the ranks; x = norm(x + y + bias).
  absl::Status EnqueueEndOfBlock(const LinearWeights& linear, const NormWeights& norm,
                                 int64_t tokens);

  Rank& rank_;
  const EncoderConfig config_;
  const EncoderOptions options_;
  const EncoderShard shard_;
  // [batch_tokens, ..]: rows of the hidden size that all ranks have alike; partial sums; this
  // rank's queries, keys and values, attention's output, and columns between up and down.
  Buffer x_, y_, query_key_value_, context_, up_;
  Buffer pooled_;   // [texts, this rank's hidden columns]
  Buffer scratch_;  // attention's
};

}  // namespace mp::model

#endif  // MP_MODEL_ENCODER_H_
