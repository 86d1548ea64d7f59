// Sentence embeddings by a BERT-family model, tensor-parallel over the ranks of one process.
//
//   MP_ASSIGN_OR_RETURN(auto embedder, mp::model::Embedder::Create(backend, folder, {.ranks = 2}));
//   std::vector<int32_t> ids = embedder->tokenizer().Encode("A text.", 256);
//   MP_RETURN_IF_ERROR(embedder->Embed({ids}, rows));     // f32 [1, hidden], of length 1
//
// Errors.    Create names the file and what is wrong with it.
// Threads.   One at a time.
// Ownership. Owns the World and the weights; the Backend is shared.
#ifndef MP_MODEL_EMBEDDER_H_
#define MP_MODEL_EMBEDDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mp/backend.h"
#include "mp/buffer.h"
#include "mp/model/batch.h"
#include "mp/model/config.h"
#include "mp/model/encoder.h"
#include "mp/model/text/tokenizer.h"
#include "mp/tensor.h"
#include "mp/world.h"

namespace mp::model {

struct EmbedderOptions {
  // The devices 0..ranks-1 of the Backend.
  int ranks = 1;
  // Host threads in all, shared out to the ranks; each has at least one.
  int threads = 1;
  // How many tokens a batch has at most; at least those of one text.  Several ranks have two
  // batches under way.
  int64_t batch_tokens = 1024;
  // Gets what runs on the streams; null for none.
  std::shared_ptr<Trace> trace;
};

class Embedder {
 public:
  static absl::StatusOr<std::unique_ptr<Embedder>> Create(std::shared_ptr<Backend> backend,
                                                          const std::string& folder,
                                                          const EmbedderOptions& options);

  const EncoderConfig& config() const { return config_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  // Row i of `output`, dense f32 [texts, hidden], becomes the embedding of texts[i], scaled to
  // length 1.  Each text has 1..max_tokens ids of the vocabulary.  `progress` gets each
  // batch when it is done, on any one thread at a time.
  // InvalidArgument: the output or a text is not so; nothing was done.  DeviceError: a row is not
  // finite or has no length, as damaged weights make it.
  absl::Status Embed(absl::Span<const std::vector<int32_t>> texts, const TensorView& output,
                     const std::function<void(const TokenBatch&)>& progress = nullptr);

 private:
  Embedder(EncoderConfig config, Tokenizer tokenizer, const EmbedderOptions& options)
      : config_(config), tokenizer_(std::move(tokenizer)), options_(options) {}
  absl::Status Start(std::shared_ptr<Backend> backend, const std::string& folder);
  absl::Status CheckTexts(absl::Span<const std::vector<int32_t>> texts,
                          const TensorView& output) const;

  const EncoderConfig config_;
  const Tokenizer tokenizer_;
  EmbedderOptions options_;
  int passes_ = 1;  // of the encoders
  std::unique_ptr<World> world_;
  Buffer joined_;  // on the first rank's device, as EncoderOptions' and Encoder::Enqueue's
  Buffer pooled_;
  std::vector<std::unique_ptr<Encoder>> encoders_;  // by rank
};

}  // namespace mp::model

#endif  // MP_MODEL_EMBEDDER_H_
