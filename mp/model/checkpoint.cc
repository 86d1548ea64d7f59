#include "mp/model/checkpoint.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "mp/base/check.h"
#include "mp/base/status.h"
#include "mp/files/printable.h"

namespace mp::model {
namespace {

constexpr absl::string_view kWords = "embeddings.word_embeddings.weight";
// What some checkpoints put in front of every name.
constexpr const char* kPrefixes[] = {"", "bert.", "model."};

struct Wanted {
  std::string name;
  Shape shape;
};

void WantNorm(std::vector<Wanted>& wanted, const std::string& name, const EncoderConfig& config) {
  wanted.push_back({absl::StrCat(name, ".weight"), {config.hidden}});
  wanted.push_back({absl::StrCat(name, ".bias"), {config.hidden}});
}

void WantLinear(std::vector<Wanted>& wanted, const std::string& name, int64_t out, int64_t in) {
  wanted.push_back({absl::StrCat(name, ".weight"), {out, in}});
  wanted.push_back({absl::StrCat(name, ".bias"), {out}});
}

std::vector<Wanted> WantedInFront(const EncoderConfig& config) {
  std::vector<Wanted> wanted = {
      {std::string(kWords), {config.vocab, config.hidden}},
      {"embeddings.position_embeddings.weight", {config.positions, config.hidden}},
      {"embeddings.token_type_embeddings.weight", {config.types, config.hidden}},
  };
  WantNorm(wanted, "embeddings.LayerNorm", config);
  return wanted;
}

std::vector<Wanted> WantedOfLayer(int64_t i, const EncoderConfig& config) {
  const int64_t hidden = config.hidden;
  const std::string layer = Checkpoint::Layer(i);
  std::vector<Wanted> wanted;
  for (const char* part : {"query", "key", "value"}) {
    WantLinear(wanted, absl::StrCat(layer, "attention.self.", part), hidden, hidden);
  }
  WantLinear(wanted, absl::StrCat(layer, "attention.output.dense"), hidden, hidden);
  WantNorm(wanted, absl::StrCat(layer, "attention.output.LayerNorm"), config);
  WantLinear(wanted, absl::StrCat(layer, "intermediate.dense"), config.intermediate, hidden);
  WantLinear(wanted, absl::StrCat(layer, "output.dense"), hidden, config.intermediate);
  WantNorm(wanted, absl::StrCat(layer, "output.LayerNorm"), config);
  return wanted;
}

// The name that old checkpoints have for a norm's weight or bias.
std::string OldName(absl::string_view name) {
  return absl::StrReplaceAll(
      name, {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}});
}

size_t FindIn(const files::TensorFile& file, absl::string_view name) {
  const auto& tensors = file.tensors();
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const files::TensorEntry& entry, absl::string_view key) { return entry.name < key; });
  const bool there = found != tensors.end() && found->name == name;
  return there ? static_cast<size_t>(found - tensors.begin()) : tensors.size();
}

}  // namespace

std::string Checkpoint::Layer(int64_t layer) { return absl::StrCat("encoder.layer.", layer, "."); }

absl::Status Checkpoint::Add(const std::string& prefix, const std::string& name,
                             const Shape& shape) {
  const std::string full = absl::StrCat(prefix, name);
  size_t i = FindIn(file_, full);
  if (i == file_.tensors().size()) i = FindIn(file_, OldName(full));
  const std::string path = files::Printable(file_.path());
  if (i == file_.tensors().size()) {
    return InvalidArgument(path, ": the tensor \"", full, "\" is missing");
  }
  const files::TensorEntry& entry = file_.tensors()[i];
  if (entry.dtype != DType::kF32 && entry.dtype != DType::kF16 && entry.dtype != DType::kBF16) {
    return InvalidArgument(path, ": the tensor \"", full, "\" is ", DTypeName(entry.dtype),
                           "; weights are f32, f16 or bf16");
  }
  if (entry.shape != shape) {
    return InvalidArgument(path, ": the tensor \"", full, "\" is ", entry.shape.ToString(),
                           ", and config.json makes it ", shape.ToString());
  }
  index_[name] = i;
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder,
                                            const EncoderConfig& config) {
  MP_ASSIGN_OR_RETURN(files::TensorFile file,
                      files::TensorFile::Open(absl::StrCat(folder, "/model.safetensors")));
  Checkpoint checkpoint(std::move(file));
  std::string prefix;
  for (const char* each : kPrefixes) {
    const size_t i = FindIn(checkpoint.file_, absl::StrCat(each, kWords));
    if (i < checkpoint.file_.tensors().size()) prefix = each;
  }
  for (const Wanted& wanted : WantedInFront(config)) {
    MP_RETURN_IF_ERROR(checkpoint.Add(prefix, wanted.name, wanted.shape));
  }
  // A layer at a time: their number is what a file says, and the first that is missing ends it.
  for (int64_t i = 0; i < config.layers; ++i) {
    for (const Wanted& wanted : WantedOfLayer(i, config)) {
      MP_RETURN_IF_ERROR(checkpoint.Add(prefix, wanted.name, wanted.shape));
    }
  }
  const std::string beyond =
      absl::StrCat(prefix, Layer(config.layers), "attention.self.query.weight");
  if (FindIn(checkpoint.file_, beyond) < checkpoint.file_.tensors().size()) {
    return InvalidArgument(files::Printable(checkpoint.file_.path()), ": has the tensor \"", beyond,
                           "\", and config.json says ", config.layers, " layers");
  }
  return checkpoint;
}

TensorView Checkpoint::Find(absl::string_view name) const {
  const auto found = index_.find(name);
  MP_CHECK(found != index_.end());
  return file_.view(found->second);
}

}  // namespace mp::model
