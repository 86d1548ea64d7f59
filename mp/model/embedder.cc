#include "mp/model/embedder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mp/base/status.h"
#include "mp/files/printable.h"
#include "mp/model/batch.h"
#include "mp/model/checkpoint.h"
#include "mp/model/rows.h"
#include "mp/model/split.h"

namespace mp::model {
namespace {

// Rows of `pooled`, scaled to length 1, to the places of their texts.
struct Store {
  static constexpr char kName[] = "Store";
  std::shared_ptr<const TokenBatch> batch;
  int64_t hidden;
  const float* pooled;
  float* output;
  const std::function<void(const TokenBatch&)>* progress;

  absl::Status operator()() const {
    for (size_t i = 0; i < batch->texts.size(); ++i) {
      const float length = ScaleToUnit(output + static_cast<int64_t>(batch->texts[i]) * hidden,
                                       pooled + static_cast<int64_t>(i) * hidden, hidden);
      if (length > 0 && std::isfinite(length)) continue;
      return MakeError(ErrorKind::kDeviceError,
                       absl::StrCat("the embedding of text ", batch->texts[i], " has the length ",
                                    length, ": the weights of the model are damaged"));
    }
    if (*progress) (*progress)(*batch);
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Embedder>> Embedder::Create(std::shared_ptr<Backend> backend,
                                                           const std::string& folder,
                                                           const EmbedderOptions& options) {
  MP_ASSIGN_OR_RETURN(const EncoderConfig config, LoadConfig(folder));
  MP_RETURN_IF_ERROR(CheckRanks(config, options.ranks));
  MP_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(folder));
  if (tokenizer.vocab_size() > config.vocab) {
    return InvalidArgument(files::Printable(folder), ": the tokenizer has ", tokenizer.vocab_size(),
                           " tokens, and config.json a vocab_size of ", config.vocab);
  }
  std::unique_ptr<Embedder> embedder(new Embedder(config, std::move(tokenizer), options));
  embedder->passes_ = options.ranks > 1 ? 2 : 1;
  embedder->options_.batch_tokens = std::max(options.batch_tokens, config.max_tokens);
  MP_RETURN_IF_ERROR(embedder->Start(std::move(backend), folder));
  return embedder;
}

absl::Status Embedder::Start(std::shared_ptr<Backend> backend, const std::string& folder) {
  MP_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(folder, config_));
  WorldOptions world_options;
  for (int rank = 0; rank < options_.ranks; ++rank) world_options.devices.push_back(rank);
  world_options.trace = options_.trace;
  MP_ASSIGN_OR_RETURN(world_, World::Create(std::move(backend), world_options));
  const Shape rows = {options_.batch_tokens, config_.hidden};
  MP_ASSIGN_OR_RETURN(joined_,
                      world_->device(0).Allocate(DType::kF32, rows.With(0, passes_ * rows.dim(0))));
  MP_ASSIGN_OR_RETURN(pooled_, world_->device(0).Allocate(DType::kF32, rows));
  encoders_.resize(static_cast<size_t>(options_.ranks));
  return world_->Run([&](Rank& rank) -> absl::Status {
    const auto threads =
        static_cast<int>(SliceOf(options_.threads, options_.ranks, rank.id()).size);
    MP_ASSIGN_OR_RETURN(encoders_[static_cast<size_t>(rank.id())],
                        Encoder::Create(rank, config_, checkpoint,
                                        {.threads = std::max(threads, 1),
                                         .batch_tokens = options_.batch_tokens,
                                         .longest = config_.max_tokens,
                                         .passes = passes_,
                                         .joined = joined_.view()}));
    return absl::OkStatus();
  });
}

absl::Status Embedder::CheckTexts(absl::Span<const std::vector<int32_t>> texts,
                                  const TensorView& output) const {
  const Shape wanted = {static_cast<int64_t>(texts.size()), config_.hidden};
  if (output.dtype() != DType::kF32 || output.shape() != wanted || !output.is_dense()) {
    return InvalidArgument("the output is ", output.ToString(), ", must be dense f32",
                           wanted.ToString());
  }
  MP_RETURN_IF_ERROR(output.Check("the output"));
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto length = static_cast<int64_t>(texts[i].size());
    if (length < 1 || length > config_.max_tokens) {
      return InvalidArgument("text ", i, " has ", length, " tokens, must have 1..",
                             config_.max_tokens);
    }
    for (const int32_t id : texts[i]) {
      if (id >= 0 && id < config_.vocab) continue;
      return InvalidArgument("text ", i, " has the token ", id, ", must be in 0..",
                             config_.vocab - 1);
    }
  }
  return absl::OkStatus();
}

absl::Status Embedder::Embed(absl::Span<const std::vector<int32_t>> texts, const TensorView& output,
                             const std::function<void(const TokenBatch&)>& progress) {
  MP_RETURN_IF_ERROR(CheckTexts(texts, output));
  std::vector<EncoderPass> passes;
  for (TokenBatch& batch : MakeBatches(texts, options_.batch_tokens)) {
    const TensorView pooled(pooled_.data(), DType::kF32, {batch.text_count(), config_.hidden});
    passes.push_back({std::make_shared<const TokenBatch>(std::move(batch)), pooled});
  }
  return world_->Run([&](Rank& rank) -> absl::Status {
    Encoder& encoder = *encoders_[static_cast<size_t>(rank.id())];
    const auto store = [&](const EncoderPass& pass) -> absl::Status {
      if (rank.id() != 0) return absl::OkStatus();
      return rank.stream().Launch(Store{pass.batch, config_.hidden,
                                        static_cast<const float*>(pooled_.data()),
                                        static_cast<float*>(output.data()), &progress});
    };
    for (absl::Span<const EncoderPass> rest = passes; !rest.empty();) {
      const size_t next = std::min(rest.size(), static_cast<size_t>(passes_));
      MP_RETURN_IF_ERROR(encoder.Enqueue(rest.first(next), store));
      rest.remove_prefix(next);
    }
    return rank.stream().Synchronize();
  });
}

}  // namespace mp::model
