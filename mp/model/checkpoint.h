// The weights of an encoder as its model.safetensors has them, by the names that BERT's
// checkpoints use (with or without "bert." in front; gamma and beta for weight and bias of norms).
//
//   MP_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder, config));
//   TensorView word = checkpoint.Find("embeddings.word_embeddings.weight");
//
// Errors.    Open looks for every tensor that the encoder needs and says which is missing, or has
//            another shape than config.json says, or is none of f32, f16 and bf16.
// Threads.   Any number read.
// Ownership. Move-only; views are the file's own memory and live as long as the Checkpoint.
#ifndef MP_MODEL_CHECKPOINT_H_
#define MP_MODEL_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mp/files/tensor_file.h"
#include "mp/model/config.h"
#include "mp/tensor.h"

namespace mp::model {

class Checkpoint {
 public:
  static absl::StatusOr<Checkpoint> Open(const std::string& folder, const EncoderConfig& config);

  // A tensor that the encoder has.
  TensorView Find(absl::string_view name) const;
  // "encoder.layer.2.": what the names of a layer's tensors begin with.
  static std::string Layer(int64_t layer);

 private:
  explicit Checkpoint(files::TensorFile file) : file_(std::move(file)) {}
  absl::Status Add(const std::string& prefix, const std::string& name, const Shape& shape);

  files::TensorFile file_;
  std::map<std::string, size_t, std::less<>>
      index_;  // of the tensors of file_, by their names here
};

}  // namespace mp::model

#endif  // MP_MODEL_CHECKPOINT_H_
