// Shows that each rank has exactly its slice of every weight, element by element, from files of all
// three dtypes.
#include "mp/model/shard.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "mp/host/backend.h"
#include "tests/files/samples.h"
#include "tests/model/tiny_model.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

constexpr int kRanks = 3;  // 5 heads: 2 2 1; 35 columns: 12 12 11; 23: 8 8 7

class Holder {
 public:
  Holder(const TinyModel& model, const EncoderShard& shard) : model_(model), shard_(shard) {}

  void ExpectAll() const {
    ExpectColumns(shard_.words, "embeddings.word_embeddings.weight", shard_.columns);
    ExpectColumns(shard_.positions, "embeddings.position_embeddings.weight", shard_.columns);
    ExpectColumns(shard_.type, "embeddings.token_type_embeddings.weight", shard_.columns);
    ExpectNorm(shard_.norm, "embeddings.LayerNorm");
    const Slice head_columns{shard_.heads.begin * 7, shard_.heads.size * 7};
    for (size_t i = 0; i < shard_.layers.size(); ++i) {
      const LayerShard& layer = shard_.layers[i];
      const std::string name = absl::StrCat("encoder.layer.", i, ".");
      const std::string self = name + "attention.self.";
      ExpectRows(layer.query_key_value, {self + "query", self + "key", self + "value"},
                 head_columns);
      ExpectColumns(layer.attention_output.weight, name + "attention.output.dense.weight",
                    head_columns);
      ExpectWhole(layer.attention_output.bias, name + "attention.output.dense.bias");
      ExpectNorm(layer.attention_norm, name + "attention.output.LayerNorm");
      ExpectRows(layer.up, {name + "intermediate.dense"}, shard_.intermediate);
      ExpectColumns(layer.down.weight, name + "output.dense.weight", shard_.intermediate);
      ExpectWhole(layer.down.bias, name + "output.dense.bias");
      ExpectNorm(layer.output_norm, name + "output.LayerNorm");
    }
  }

 private:
  const Weights& Get(const std::string& name) const { return model_.weights.at(name); }
  static float At(const Buffer& buffer, int64_t i) {
    return static_cast<const float*>(buffer.data())[i];
  }
  void ExpectWhole(const Buffer& buffer, const std::string& name) const {
    const Weights& weights = Get(name);
    ASSERT_EQ(buffer.view().shape(), Shape(absl::MakeConstSpan(weights.shape))) << name;
    for (size_t i = 0; i < weights.values.size(); ++i) {
      ASSERT_EQ(At(buffer, static_cast<int64_t>(i)), weights.values[i]) << name << " " << i;
    }
  }
  void ExpectNorm(const NormWeights& norm, const std::string& name) const {
    ExpectWhole(norm.weight, name + ".weight");
    ExpectWhole(norm.bias, name + ".bias");
  }
  void ExpectColumns(const Buffer& buffer, const std::string& name, const Slice& slice) const {
    const Weights& weights = Get(name);
    const int64_t rows = weights.shape[0], columns = weights.shape[1];
    ASSERT_EQ(buffer.view().shape(), Shape({rows, slice.size})) << name;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < slice.size; ++j) {
        ASSERT_EQ(At(buffer, i * slice.size + j),
                  weights.values[static_cast<size_t>(i * columns + slice.begin + j)])
            << name << " " << i << ", " << j;
      }
    }
  }
  void ExpectRows(const LinearWeights& linear, const std::vector<std::string>& names,
                  const Slice& slice) const {
    const auto count = static_cast<int64_t>(names.size());
    const int64_t columns = Get(names[0] + ".weight").shape[1];
    ASSERT_EQ(linear.weight.view().shape(), Shape({count * slice.size, columns}));
    ASSERT_EQ(linear.bias.view().shape(), Shape({count * slice.size}));
    for (int64_t i = 0; i < count * slice.size; ++i) {
      const std::string& name = names[static_cast<size_t>(i / slice.size)];
      const int64_t row = slice.begin + i % slice.size;
      ASSERT_EQ(At(linear.bias, i), Get(name + ".bias").values[static_cast<size_t>(row)]) << name;
      for (int64_t j = 0; j < columns; ++j) {
        ASSERT_EQ(At(linear.weight, i * columns + j),
                  Get(name + ".weight").values[static_cast<size_t>(row * columns + j)])
            << name << " " << row << ", " << j;
      }
    }
  }

  const TinyModel& model_;
  const EncoderShard& shard_;
};

TEST(EncoderShard, IsTheRanksSliceOfEveryWeight) {
  const TinyModel model = TinyModel::Make(TinyConfig(), 1);
  files::TempFolder temp;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    SCOPED_TRACE(DTypeName(dtype));
    WriteFile(temp / "model.safetensors", model.Safetensors(dtype));
    ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(temp.path(), model.config));
    ASSERT_OK_AND_ASSIGN(auto backend, host::NewBackend({.devices = kRanks, .threads = 1}));
    ASSERT_OK_AND_ASSIGN(auto world, World::Create(backend));
    EXPECT_OK(world->Run([&](Rank& rank) -> absl::Status {
      MP_ASSIGN_OR_RETURN(const EncoderShard shard,
                          EncoderShard::Load(rank, checkpoint, model.config));
      EXPECT_EQ(shard.heads.size, rank.id() == 2 ? 1 : 2);
      EXPECT_EQ(shard.columns.size, rank.id() == 2 ? 11 : 12);
      EXPECT_EQ(shard.intermediate.size, rank.id() == 2 ? 7 : 8);
      Holder(model, shard).ExpectAll();
      return absl::OkStatus();
    }));
  }
}

}  // namespace
}  // namespace mp::model
