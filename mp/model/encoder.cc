#include "mp/model/encoder.h"

#include <utility>

#include "mp/base/status.h"
#include "mp/model/attention.h"
#include "mp/model/gemm.h"
#include "mp/model/parallel.h"
#include "mp/model/rows.h"

namespace mp::model {
namespace {

using Batch = std::shared_ptr<const TokenBatch>;

float* Floats(const Buffer& buffer) { return static_cast<float*>(buffer.data()); }

// out = this rank's columns of each token's word, position and type embeddings.
struct Embed {
  static constexpr char kName[] = "Embed";
  Batch batch;
  const EncoderShard* shard;
  int threads;
  TensorView out;

  void operator()() const {
    ParallelFor(threads, batch->text_count(), [&](int64_t begin, int64_t end, int) {
      for (int64_t text = begin; text < end; ++text) Text(text);
    });
  }
  void Text(int64_t text) const {
    const int64_t cols = shard->columns.size;
    const int64_t begin = batch->offsets[static_cast<size_t>(text)];
    for (int64_t i = 0; i < batch->length(text); ++i) {
      const int64_t id = batch->ids[static_cast<size_t>(begin + i)];
      char* row = static_cast<char*>(out.data()) + (begin + i) * out.row_pitch();
      AddThree(reinterpret_cast<float*>(row), Floats(shard->words) + id * cols,
               Floats(shard->positions) + i * cols, Floats(shard->type), cols);
    }
  }
};

struct EmbeddingNorm {
  static constexpr char kName[] = "Norm";
  LayerNorm norm;
  int64_t tokens, hidden;
  int threads;
  const float* in;
  float* out;

  void operator()() const {
    ParallelFor(threads, tokens, [&](int64_t begin, int64_t end, int) {
      Normalize(out + begin * hidden, in + begin * hidden, norm, end - begin, hidden);
    });
  }
};

// out [tokens, cols] = in [tokens, inner] weight^T, and then bias and activation.
struct Product {
  const float* bias;  // null: none is added
  bool activate;
  Activation activation;
  const float* weight;
  int64_t tokens, cols, inner;
  int threads;
  const float* in;
  float* out;

  absl::Status operator()() const {
    const ScopedThreads scoped(threads);
    MP_RETURN_IF_ERROR(
        MultiplyTransposed({in, inner}, {weight, inner}, tokens, cols, inner, 1.0f, out, cols));
    if (bias == nullptr) return absl::OkStatus();
    ParallelFor(threads, tokens,
                [&](int64_t begin, int64_t end, int) { Finish(out + begin * cols, end - begin); });
    return absl::OkStatus();
  }
  void Finish(float* rows, int64_t count) const {
    if (!activate) return AddBias(rows, bias, count, cols);
    if (activation == Activation::kRelu) return AddBiasRelu(rows, bias, count, cols);
    AddBiasGelu(rows, bias, count, cols);
  }
};

struct QueryKeyValue : Product {
  static constexpr char kName[] = "Query, key, value";
};
struct AttentionOutput : Product {
  static constexpr char kName[] = "Attention output";
};
struct Up : Product {
  static constexpr char kName[] = "Up";
};
struct Down : Product {
  static constexpr char kName[] = "Down";
};

// x = norm(x + y + bias).
struct EndOfBlock {
  static constexpr char kName[] = "Add and norm";
  LayerNorm norm;
  const float* bias;
  int64_t tokens, hidden;
  int threads;
  float* x;
  const float* y;

  void operator()() const {
    ParallelFor(threads, tokens, [&](int64_t begin, int64_t end, int) {
      AddAndNormalize(x + begin * hidden, y + begin * hidden, bias, norm, end - begin, hidden);
    });
  }
};

// out [texts, columns] = this rank's columns of each text's pooled row.
struct Pool {
  static constexpr char kName[] = "Pool";
  Batch batch;
  Pooling pooling;
  int64_t hidden;
  Slice columns;
  const float* x;
  float* out;

  void operator()() const {
    for (int64_t text = 0; text < batch->text_count(); ++text) {
      const float* first = x + batch->offsets[static_cast<size_t>(text)] * hidden + columns.begin;
      const int64_t rows = pooling == Pooling::kFirst ? 1 : batch->length(text);
      MeanOfRows(out + text * columns.size, first, rows, columns.size, hidden);
    }
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Encoder>> Encoder::Create(Rank& rank, const EncoderConfig& config,
                                                         const Checkpoint& checkpoint,
                                                         const EncoderOptions& options) {
  MP_RETURN_IF_ERROR(CheckRanks(config, rank.world_size()));
  MP_ASSIGN_OR_RETURN(EncoderShard shard, EncoderShard::Load(rank, checkpoint, config));
  std::unique_ptr<Encoder> encoder(new Encoder(rank, config, std::move(shard), options));
  MP_RETURN_IF_ERROR(encoder->Allocate());
  return encoder;
}

absl::Status Encoder::Allocate() {
  const int64_t tokens = options_.batch_tokens, width = shard_.heads.size * config_.head_size();
  const auto allocate = [&](int64_t rows, int64_t cols) {
    return rank_.device().Allocate(DType::kF32, {rows, cols});
  };
  lanes_.resize(static_cast<size_t>(options_.passes));
  auto* joined = static_cast<float*>(options_.joined.data());
  for (Lane& lane : lanes_) {
    lane.joined = joined;
    joined += tokens * config_.hidden;
    MP_ASSIGN_OR_RETURN(lane.x, allocate(tokens, config_.hidden));
    MP_ASSIGN_OR_RETURN(lane.y, allocate(tokens, config_.hidden));
  }
  MP_ASSIGN_OR_RETURN(query_key_value_, allocate(tokens, 3 * width));
  MP_ASSIGN_OR_RETURN(context_, allocate(tokens, width));
  MP_ASSIGN_OR_RETURN(up_, allocate(tokens, shard_.intermediate.size));
  MP_ASSIGN_OR_RETURN(pooled_, allocate(tokens, shard_.columns.size));
  MP_ASSIGN_OR_RETURN(
      scratch_,
      allocate(options_.threads, Attention::ScratchFloats(options_.longest, config_.head_size())));
  return absl::OkStatus();
}

absl::Status Encoder::CheckBatch(const TokenBatch& batch) const {
  if (batch.text_count() == 0) return InvalidArgument("a batch without a text");
  if (batch.token_count() > options_.batch_tokens || batch.length(0) > options_.longest) {
    return InvalidArgument("a batch of ", batch.token_count(), " tokens, the first text of ",
                           batch.length(0), ": at most ", options_.batch_tokens, " and ",
                           options_.longest, " were asked for");
  }
  return absl::OkStatus();
}

absl::Status Encoder::Enqueue(absl::Span<const EncoderPass> passes,
                              const std::function<absl::Status(const EncoderPass&)>& pooled) {
  if (passes.empty() || passes.size() > lanes_.size()) {
    return InvalidArgument(passes.size(), " batches at once, must be 1..", lanes_.size());
  }
  for (const EncoderPass& pass : passes) MP_RETURN_IF_ERROR(CheckBatch(*pass.batch));
  const Lanes lanes = absl::MakeSpan(lanes_).first(passes.size());
  overlap_ = lanes.size() > 1;
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].pass = passes[i];
    MP_RETURN_IF_ERROR(EnqueueEmbeddings(lanes[i]));
  }
  for (const LayerShard& layer : shard_.layers) {
    for (Lane& lane : lanes) MP_RETURN_IF_ERROR(EnqueueAttention(layer, lane));
    for (Lane& lane : lanes) MP_RETURN_IF_ERROR(EnqueueFeedForward(layer, lane));
  }
  for (Lane& lane : lanes) {
    MP_RETURN_IF_ERROR(EnqueueEndOfBlock(lane));
    MP_RETURN_IF_ERROR(EnqueuePooling(lane));
    MP_RETURN_IF_ERROR(pooled(lane.pass));
  }
  return absl::OkStatus();
}

// Each rank writes its columns straight into their place in the rows that all share, so that the
// AllGather copies nothing.  The lane's next batch may write there at once: a rank comes to it
// after the AllReduces of this one, and so after all ranks have read.
absl::Status Encoder::EnqueueEmbeddings(Lane& lane) {
  const int64_t tokens = lane.tokens(), hidden = config_.hidden;
  RankRegion& region = rank_.region();
  const TensorView joined(lane.joined, DType::kF32, {tokens, hidden});
  MP_ASSIGN_OR_RETURN(const TensorView columns,
                      region.Slot(joined, rank_.id(), SizesOf(hidden, rank_.world_size())));
  MP_RETURN_IF_ERROR(
      rank_.stream().Launch(Embed{lane.pass.batch, &shard_, options_.threads, columns}));
  MP_RETURN_IF_ERROR(region.AllGather(columns, joined, {.shared_output = true}));
  return rank_.stream().Launch(EmbeddingNorm{shard_.norm.With(config_.epsilon), tokens, hidden,
                                             options_.threads, lane.joined, Floats(lane.x)});
}

template <typename ProductKernel>
absl::Status Encoder::EnqueueProduct(const LinearWeights& linear, const Buffer& in,
                                     const Buffer& out, int64_t tokens, Ending ending) {
  const Shape& shape = linear.weight.view().shape();
  return rank_.stream().Launch(
      ProductKernel{{ending == Ending::kNone ? nullptr : linear.biases(),
                     ending == Ending::kActivation, config_.activation, linear.weights(), tokens,
                     shape.dim(0), shape.dim(1), options_.threads, Floats(in), Floats(out)}});
}

absl::Status Encoder::EnqueueSum(const LinearWeights& linear, const NormWeights& norm, Lane& lane) {
  const TensorView y(lane.y.data(), DType::kF32, {lane.tokens(), config_.hidden});
  lane.linear = &linear;
  lane.norm = &norm;
  if (!overlap_) return rank_.region().AllReduce(y);
  MP_ASSIGN_OR_RETURN(lane.sum, rank_.region().StartAllReduce(y));
  return absl::OkStatus();
}

absl::Status Encoder::EnqueueEndOfBlock(Lane& lane) {
  if (lane.linear == nullptr) return absl::OkStatus();
  if (overlap_) MP_RETURN_IF_ERROR(lane.sum.Wait(rank_.stream()));
  const float* const bias = std::exchange(lane.linear, nullptr)->biases();
  return rank_.stream().Launch(EndOfBlock{lane.norm->With(config_.epsilon), bias, lane.tokens(),
                                          config_.hidden, options_.threads, Floats(lane.x),
                                          Floats(lane.y)});
}

absl::Status Encoder::EnqueueAttention(const LayerShard& layer, Lane& lane) {
  MP_RETURN_IF_ERROR(EnqueueEndOfBlock(lane));
  MP_RETURN_IF_ERROR(EnqueueProduct<QueryKeyValue>(layer.query_key_value, lane.x, query_key_value_,
                                                   lane.tokens(), Ending::kBias));
  MP_RETURN_IF_ERROR(rank_.stream().Launch(
      Attention{lane.pass.batch, shard_.heads.size, config_.head_size(), options_.threads,
                Floats(query_key_value_), Floats(context_), Floats(scratch_)}));
  MP_RETURN_IF_ERROR(EnqueueProduct<AttentionOutput>(layer.attention_output, context_, lane.y,
                                                     lane.tokens(), Ending::kNone));
  return EnqueueSum(layer.attention_output, layer.attention_norm, lane);
}

absl::Status Encoder::EnqueueFeedForward(const LayerShard& layer, Lane& lane) {
  MP_RETURN_IF_ERROR(EnqueueEndOfBlock(lane));
  MP_RETURN_IF_ERROR(EnqueueProduct<Up>(layer.up, lane.x, up_, lane.tokens(), Ending::kActivation));
  MP_RETURN_IF_ERROR(EnqueueProduct<Down>(layer.down, up_, lane.y, lane.tokens(), Ending::kNone));
  return EnqueueSum(layer.down, layer.output_norm, lane);
}

absl::Status Encoder::EnqueuePooling(const Lane& lane) {
  const Slice columns = shard_.columns;
  MP_RETURN_IF_ERROR(rank_.stream().Launch(Pool{lane.pass.batch, config_.pooling, config_.hidden,
                                                columns, Floats(lane.x), Floats(pooled_)}));
  const TensorView shard(pooled_.data(), DType::kF32,
                         {lane.pass.batch->text_count(), columns.size});
  return rank_.region().Gather(shard, lane.pass.output, 0);
}

}  // namespace mp::model
