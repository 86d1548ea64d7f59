#include "mp/model/shard.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "mp/base/float16.h"
#include "mp/base/status.h"

namespace mp::model {
namespace {

// target = source, of one shape, the source in a 16-bit format at any address.
struct Widen {
  static constexpr char kName[] = "Widen";
  TensorView source, target;

  void operator()() const {
    const auto* from = static_cast<const char*>(source.data());
    auto* to = static_cast<char*>(target.data());
    const bool half = source.dtype() == DType::kF16;
    for (int64_t row = 0; row < source.rows(); ++row) {
      for (int64_t i = 0; i < source.shape().columns(); ++i) {
        uint16_t bits;
        std::memcpy(&bits, from + row * source.row_pitch() + 2 * i, 2);
        const float value = half ? F16ToF32(bits) : BF16ToF32(bits);
        std::memcpy(to + row * target.row_pitch() + 4 * i, &value, 4);
      }
    }
  }
};

// Reads parts of a checkpoint's tensors into new memory of one rank's device.
class Loader {
 public:
  Loader(Rank& rank, const Checkpoint& checkpoint) : rank_(rank), checkpoint_(checkpoint) {}

  absl::StatusOr<Buffer> Whole(absl::string_view name) {
    const TensorView source = checkpoint_.Find(name);
    MP_ASSIGN_OR_RETURN(Buffer buffer, Allocate(source.shape()));
    MP_RETURN_IF_ERROR(Read(source, buffer.view()));
    return buffer;
  }
  // Some columns of its last dimension.
  absl::StatusOr<Buffer> Columns(absl::string_view name, const Slice& slice) {
    MP_ASSIGN_OR_RETURN(const TensorView source,
                        checkpoint_.Find(name).Columns(slice.begin, slice.size));
    MP_ASSIGN_OR_RETURN(Buffer buffer, Allocate(source.shape()));
    MP_RETURN_IF_ERROR(Read(source, buffer.view()));
    return buffer;
  }
  // The same rows (for a bias, elements) of each of several tensors, one behind the other.
  absl::StatusOr<Buffer> Rows(const std::vector<std::string>& names, const Slice& slice) {
    const TensorView first = checkpoint_.Find(names[0]);
    const auto count = static_cast<int64_t>(names.size());
    const Shape part = first.shape().With(0, slice.size);
    MP_ASSIGN_OR_RETURN(Buffer buffer, Allocate(part.With(0, count * slice.size)));
    for (size_t i = 0; i < names.size(); ++i) {
      const TensorView source = checkpoint_.Find(names[i]);
      const int64_t row = source.shape().Product(1, source.shape().rank());
      char* from = static_cast<char*>(source.data()) + slice.begin * row * SizeOf(source.dtype());
      float* to = static_cast<float*>(buffer.data()) + static_cast<int64_t>(i) * slice.size * row;
      MP_RETURN_IF_ERROR(
          Read(TensorView(from, source.dtype(), part), TensorView(to, DType::kF32, part)));
    }
    return buffer;
  }
  absl::StatusOr<NormWeights> Norm(const std::string& name) {
    NormWeights norm;
    MP_ASSIGN_OR_RETURN(norm.weight, Whole(absl::StrCat(name, ".weight")));
    MP_ASSIGN_OR_RETURN(norm.bias, Whole(absl::StrCat(name, ".bias")));
    return norm;
  }
  // A linear layer split by its outputs, or several as one.
  absl::StatusOr<LinearWeights> ColumnParallel(const std::vector<std::string>& names,
                                               const Slice& slice) {
    std::vector<std::string> weights, biases;
    for (const std::string& name : names) {
      weights.push_back(absl::StrCat(name, ".weight"));
      biases.push_back(absl::StrCat(name, ".bias"));
    }
    LinearWeights linear;
    MP_ASSIGN_OR_RETURN(linear.weight, Rows(weights, slice));
    MP_ASSIGN_OR_RETURN(linear.bias, Rows(biases, slice));
    return linear;
  }
  // A linear layer split by its inputs.
  absl::StatusOr<LinearWeights> RowParallel(const std::string& name, const Slice& slice) {
    LinearWeights linear;
    MP_ASSIGN_OR_RETURN(linear.weight, Columns(absl::StrCat(name, ".weight"), slice));
    MP_ASSIGN_OR_RETURN(linear.bias, Whole(absl::StrCat(name, ".bias")));
    return linear;
  }

 private:
  absl::StatusOr<Buffer> Allocate(const Shape& shape) {
    return rank_.device().Allocate(DType::kF32, shape);
  }
  absl::Status Read(const TensorView& source, const TensorView& target) {
    if (source.dtype() == DType::kF32) return rank_.stream().Copy(source, target);
    return rank_.stream().Launch(Widen{source, target});
  }

  Rank& rank_;
  const Checkpoint& checkpoint_;
};

absl::StatusOr<LayerShard> LoadLayer(Loader& loader, const std::string& layer, const Slice& head,
                                     const Slice& intermediate) {
  const std::string attention = absl::StrCat(layer, "attention.");
  LayerShard shard;
  MP_ASSIGN_OR_RETURN(shard.query_key_value,
                      loader.ColumnParallel({absl::StrCat(attention, "self.query"),
                                             absl::StrCat(attention, "self.key"),
                                             absl::StrCat(attention, "self.value")},
                                            head));
  MP_ASSIGN_OR_RETURN(shard.attention_output,
                      loader.RowParallel(absl::StrCat(attention, "output.dense"), head));
  MP_ASSIGN_OR_RETURN(shard.attention_norm,
                      loader.Norm(absl::StrCat(attention, "output.LayerNorm")));
  MP_ASSIGN_OR_RETURN(
      shard.up, loader.ColumnParallel({absl::StrCat(layer, "intermediate.dense")}, intermediate));
  MP_ASSIGN_OR_RETURN(shard.down,
                      loader.RowParallel(absl::StrCat(layer, "output.dense"), intermediate));
  MP_ASSIGN_OR_RETURN(shard.output_norm, loader.Norm(absl::StrCat(layer, "output.LayerNorm")));
  return shard;
}

}  // namespace

absl::StatusOr<EncoderShard> EncoderShard::Load(Rank& rank, const Checkpoint& checkpoint,
                                                const EncoderConfig& config) {
  const int n = rank.world_size(), r = rank.id();
  EncoderShard shard;
  shard.heads = SliceOf(config.heads, n, r);
  shard.columns = SliceOf(config.hidden, n, r);
  shard.intermediate = SliceOf(config.intermediate, n, r);
  const int64_t size = config.head_size();
  const Slice head_columns{shard.heads.begin * size, shard.heads.size * size};
  Loader loader(rank, checkpoint);
  MP_ASSIGN_OR_RETURN(shard.words,
                      loader.Columns("embeddings.word_embeddings.weight", shard.columns));
  MP_ASSIGN_OR_RETURN(shard.positions,
                      loader.Columns("embeddings.position_embeddings.weight", shard.columns));
  MP_ASSIGN_OR_RETURN(shard.type,
                      loader.Columns("embeddings.token_type_embeddings.weight", shard.columns));
  MP_ASSIGN_OR_RETURN(shard.norm, loader.Norm("embeddings.LayerNorm"));
  for (int64_t i = 0; i < config.layers; ++i) {
    MP_ASSIGN_OR_RETURN(LayerShard layer,
                        LoadLayer(loader, Checkpoint::Layer(i), head_columns, shard.intermediate));
    shard.layers.push_back(std::move(layer));
  }
  MP_RETURN_IF_ERROR(rank.stream().Synchronize());
  return shard;
}

}  // namespace mp::model
