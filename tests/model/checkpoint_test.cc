// Shows that every tensor is found by each way of naming it, and that whatever does not fit the
// config is told with the tensor's name and both shapes.
#include "mp/model/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_replace.h"
#include "tests/files/samples.h"
#include "tests/model/tiny_model.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using test::KindIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : folder_(temp_ / "model") { model_.Write(folder_); }

  absl::StatusOr<Checkpoint> Open(const std::string& safetensors) {
    WriteFile(folder_ + "/model.safetensors", safetensors);
    return Checkpoint::Open(folder_, model_.config);
  }
  absl::Status With(const std::function<void(TinyModel&)>& change) {
    TinyModel changed = model_;
    change(changed);
    return Open(changed.Safetensors()).status();
  }
  void ExpectAll(const Checkpoint& checkpoint) {
    for (const auto& [name, weights] : model_.weights) {
      const TensorView view = checkpoint.Find(name);
      ASSERT_EQ(view.shape(), Shape(absl::MakeConstSpan(weights.shape))) << name;
      ASSERT_EQ(std::memcmp(view.data(), weights.values.data(), weights.values.size() * 4), 0)
          << name;
    }
  }

  files::TempFolder temp_;
  const std::string folder_;
  TinyModel model_ = TinyModel::Make(TinyConfig(), 1);
};

TEST_F(CheckpointTest, FindsEveryTensor) {
  for (const char* prefix : {"", "bert.", "model."}) {
    SCOPED_TRACE(prefix);
    ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                         Open(model_.Safetensors(DType::kF32, prefix)));
    ExpectAll(checkpoint);
  }
}

TEST_F(CheckpointTest, FindsOldNames) {
  std::string file = model_.Safetensors();  // names keep their length, the header its size
  file = absl::StrReplaceAll(file, {{"LayerNorm.weight\"", "LayerNorm.gamma\" "},
                                    {"LayerNorm.bias\"", "LayerNorm.beta\""}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Open(file));
  ExpectAll(checkpoint);
}

TEST_F(CheckpointTest, WhatDoesNotFitIsTold) {
  const std::string name = "encoder.layer.1.intermediate.dense.weight";
  EXPECT_THAT(With([&](TinyModel& model) { model.weights.erase(name); }),
              KindIs(ErrorKind::kInvalidArgument,
                     AllOf(HasSubstr("model.safetensors"), HasSubstr(name), HasSubstr("missing"))));
  EXPECT_THAT(With([&](TinyModel& model) {
                std::swap(model.weights[name].shape[0], model.weights[name].shape[1]);
              }),
              KindIs(ErrorKind::kInvalidArgument,
                     AllOf(HasSubstr(name), HasSubstr("is [35, 23]"), HasSubstr("[23, 35]"))));
  EXPECT_THAT(With([](TinyModel& model) {
                model.weights["embeddings.token_type_embeddings.weight"].shape = {1, 70};
              }),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("is [1, 70]")));
  EXPECT_THAT(With([](TinyModel& model) {
                model.weights.erase("embeddings.token_type_embeddings.weight");
              }),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("token_type_embeddings")));
  EXPECT_THAT(With([](TinyModel& model) { model.config.vocab = 0, model.weights.clear(); }),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("word_embeddings")));
  model_.config.layers = 1;
  EXPECT_THAT(Open(model_.Safetensors()),
              KindIs(ErrorKind::kInvalidArgument,
                     AllOf(HasSubstr("encoder.layer.1.attention.self.query.weight"),
                           HasSubstr("config.json says 1 layers"))));
  model_.Write(folder_);
  model_.config.layers = 3;
  EXPECT_THAT(Checkpoint::Open(folder_, model_.config),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("encoder.layer.2.")));
  // As many as config.json can say: what the file has is looked at, no more.
  model_.config.layers = int64_t{1} << 40;
  EXPECT_THAT(Checkpoint::Open(folder_, model_.config),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("encoder.layer.2.")));
}

TEST_F(CheckpointTest, OtherDTypesAreTold) {
  const std::string file = absl::StrReplaceAll(
      model_.Safetensors(), {{"\"embeddings.LayerNorm.bias\":{\"dtype\":\"F32\"",
                              "\"embeddings.LayerNorm.bias\":{\"dtype\":\"I32\""}});
  EXPECT_THAT(Open(file), KindIs(ErrorKind::kInvalidArgument,
                                 AllOf(HasSubstr("embeddings.LayerNorm.bias"), HasSubstr("i32"))));
}

TEST_F(CheckpointTest, BrokenFilesAreTold) {
  const std::string file = model_.Safetensors();
  EXPECT_THAT(Open(file.substr(0, file.size() - 1)), ::testing::Not(test::IsOk()));
  EXPECT_THAT(Open(file.substr(0, 20)), ::testing::Not(test::IsOk()));
  ASSERT_EQ(std::remove((folder_ + "/model.safetensors").c_str()), 0);
  EXPECT_TRUE(absl::IsNotFound(Checkpoint::Open(folder_, model_.config).status()));
}

}  // namespace
}  // namespace mp::model
