// Shows what is read from a model folder's JSON files, and that whatever is wrong there is told
// with the file, the key and the value.
#include "mp/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "tests/files/samples.h"
#include "tests/model/tiny_model.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using test::KindIs;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() : folder_(temp_ / "model") { model_.Write(folder_); }

  // What LoadConfig says when `from` is `to` in config.json.
  absl::Status With(const std::string& from, const std::string& to) {
    const std::string json = model_.ConfigJson();
    EXPECT_THAT(json, HasSubstr(from));
    WriteFile(folder_ + "/config.json", absl::StrReplaceAll(json, {{from, to}}));
    return LoadConfig(folder_).status();
  }
  absl::Status WithFile(const std::string& name, const std::string& text) {
    WriteFile(folder_ + "/" + name, text);
    return LoadConfig(folder_).status();
  }

  files::TempFolder temp_;
  const std::string folder_;
  TinyModel model_ = TinyModel::Make(TinyConfig(), 1);
};

TEST_F(ConfigTest, ReadsAFolder) {
  ASSERT_OK_AND_ASSIGN(const EncoderConfig config, LoadConfig(folder_));
  EXPECT_EQ(config.vocab, 41);
  EXPECT_EQ(config.hidden, 35);
  EXPECT_EQ(config.heads, 5);
  EXPECT_EQ(config.head_size(), 7);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.intermediate, 23);
  EXPECT_EQ(config.positions, 19);
  EXPECT_EQ(config.max_tokens, 17);
  EXPECT_EQ(config.epsilon, 1e-6f);
  EXPECT_EQ(config.activation, Activation::kGelu);
  EXPECT_EQ(config.pooling, Pooling::kMean);
}

TEST_F(ConfigTest, OtherChoices) {
  model_.config.activation = Activation::kRelu;
  model_.config.pooling = Pooling::kFirst;
  model_.Write(folder_);
  ASSERT_OK_AND_ASSIGN(const EncoderConfig config, LoadConfig(folder_));
  EXPECT_EQ(config.activation, Activation::kRelu);
  EXPECT_EQ(config.pooling, Pooling::kFirst);
}

TEST_F(ConfigTest, TheSentenceFilesMayBeMissing) {
  ASSERT_EQ(std::remove((folder_ + "/sentence_bert_config.json").c_str()), 0);
  ASSERT_EQ(std::remove((folder_ + "/1_Pooling/config.json").c_str()), 0);
  ASSERT_OK_AND_ASSIGN(const EncoderConfig config, LoadConfig(folder_));
  EXPECT_EQ(config.max_tokens, 19);
  EXPECT_EQ(config.pooling, Pooling::kMean);
  ASSERT_OK(With(R"(, "layer_norm_eps": 1e-06)", ""));
  ASSERT_OK_AND_ASSIGN(const EncoderConfig other, LoadConfig(folder_));
  EXPECT_EQ(other.epsilon, 1e-12f);
}

TEST_F(ConfigTest, WrongValuesAreTold) {
  const auto wrong = [](const char* a, const char* b) {
    return KindIs(ErrorKind::kInvalidArgument,
                  AllOf(HasSubstr("/model/config.json: "), HasSubstr(a), HasSubstr(b)));
  };
  EXPECT_THAT(With(R"("hidden_size": 35)", R"("hidden_size": 0)"),
              wrong("\"hidden_size\" is 0", "a whole number in 1..1048576"));
  EXPECT_THAT(With(R"("hidden_size": 35)", R"("hidden_size": 34)"),
              wrong("\"num_attention_heads\" is 5", "a divisor of the hidden_size 34"));
  EXPECT_THAT(With(R"("hidden_size": 35, )", ""), wrong("\"hidden_size\"", "is missing"));
  EXPECT_THAT(With(R"("vocab_size": 41)", R"("vocab_size": 41.5)"),
              wrong("\"vocab_size\" is 41.5", "whole number"));
  EXPECT_THAT(With(R"("vocab_size": 41)", R"("vocab_size": 99999999999999999999)"),
              wrong("\"vocab_size\"", "whole number"));
  EXPECT_THAT(With(R"("num_hidden_layers": 2)", R"("num_hidden_layers": "2")"),
              wrong("\"num_hidden_layers\" is \"2\"", "whole number"));
  EXPECT_THAT(With(R"("max_position_embeddings": 19)", R"("max_position_embeddings": 1)"),
              wrong("\"max_position_embeddings\" is 1", "at least 2"));
  EXPECT_THAT(With("1e-06", "-1"), wrong("\"layer_norm_eps\" is -1", "0..1"));
  EXPECT_THAT(With("1e-06", "true"), wrong("\"layer_norm_eps\" is true", "a number"));
}

TEST_F(ConfigTest, OtherModelsAreRefusedByName) {
  EXPECT_THAT(
      With("\"bert\"", "\"t5\""),
      KindIs(ErrorKind::kUnsupported, EndsWith("\"model_type\" is \"t5\"; supported: bert")));
  EXPECT_THAT(With("\"gelu\"", "\"swish\""),
              KindIs(ErrorKind::kUnsupported,
                     EndsWith("\"hidden_act\" is \"swish\"; supported: gelu, relu")));
  EXPECT_THAT(With("{", R"({"position_embedding_type": "relative_key",)"),
              KindIs(ErrorKind::kUnsupported, HasSubstr("relative_key")));
}

TEST_F(ConfigTest, FilesThatCannotBeReadAreTold) {
  EXPECT_THAT(WithFile("config.json", "[1]"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("config.json: is no JSON object")));
  EXPECT_THAT(WithFile("config.json", "{\"a\": "),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("is no JSON object")));
  const std::string nested = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(WithFile("config.json", "{\"model_type\": " + nested + "}"),
              KindIs(ErrorKind::kInvalidArgument, EndsWith("config.json: is nested too deeply")));
  EXPECT_THAT(WithFile("config.json", "{\"model_type\": \"\xff\n\"}"),
              ::testing::Not(test::IsOk()));
  const absl::Status missing = LoadConfig(folder_ + "/nowhere").status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nowhere/config.json"));
}

TEST_F(ConfigTest, SentenceSettingsAreChecked) {
  EXPECT_THAT(WithFile("sentence_bert_config.json", R"({"max_seq_length": 20})"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("2..19")));
  EXPECT_THAT(WithFile("sentence_bert_config.json", R"({"max_seq_length": 1})"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("\"max_seq_length\" is 1")));
  EXPECT_OK(WithFile("sentence_bert_config.json", R"({"max_seq_length": null})"));
  EXPECT_OK(WithFile("sentence_bert_config.json", "{}"));
  EXPECT_THAT(WithFile("sentence_bert_config.json", "no"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("sentence_bert_config.json")));
  EXPECT_OK(WithFile("sentence_bert_config.json", "{}"));
  EXPECT_THAT(WithFile("1_Pooling/config.json", "{}"),
              KindIs(ErrorKind::kUnsupported, HasSubstr("exactly one of")));
  EXPECT_THAT(WithFile("1_Pooling/config.json",
                       R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})"),
              KindIs(ErrorKind::kUnsupported, HasSubstr("\"pooling_mode_max_tokens\"")));
  EXPECT_THAT(WithFile("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": 1})"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("true or false")));
}

TEST_F(ConfigTest, WhatWouldChangeTheResultIsRefused) {
  EXPECT_THAT(With("{", R"({"is_decoder": true,)"),
              KindIs(ErrorKind::kUnsupported, HasSubstr("is_decoder")));
  EXPECT_THAT(With("{", R"({"embedding_size": 7,)"),
              KindIs(ErrorKind::kUnsupported, HasSubstr("7 that is not the hidden_size 35")));
  EXPECT_OK(With("{", R"({"embedding_size": 35,)"));
  EXPECT_THAT(With("{", R"({"type_vocab_size": 0,)"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("\"type_vocab_size\" is 0")));
  ASSERT_OK(With("{", R"({"type_vocab_size": 3,)"));
  EXPECT_EQ(LoadConfig(folder_)->types, 3);
  EXPECT_THAT(WithFile("1_Pooling/config.json",
                       R"({"pooling_mode_mean_tokens": true, "word_embedding_dimension": 99})"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("must be 35, the hidden_size")));
}

TEST_F(ConfigTest, TheTokenizersLimit) {
  ASSERT_EQ(std::remove((folder_ + "/sentence_bert_config.json").c_str()), 0);
  const auto limit = [&](const std::string& length) {
    EXPECT_OK(WithFile("tokenizer_config.json", R"({"model_max_length": )" + length + "}"));
    return LoadConfig(folder_)->max_tokens;
  };
  EXPECT_EQ(limit("8"), 8);
  EXPECT_EQ(limit("512"), 19);
  EXPECT_EQ(limit("1000000000000000019884624838656"), 19);
  EXPECT_EQ(limit("null"), 19);
  EXPECT_THAT(WithFile("tokenizer_config.json", R"({"model_max_length": 1})"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("at least 2")));
}

TEST_F(ConfigTest, Modules) {
  const auto modules = [&](const std::string& more) {
    return WithFile("modules.json", R"([{"type": "sentence_transformers.models.Transformer",
        "path": ""}, {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"})" +
                                        more + "]");
  };
  EXPECT_OK(modules(""));
  EXPECT_OK(modules(R"(, {"type": "sentence_transformers.models.Normalize", "path": "2"})"));
  EXPECT_THAT(modules(R"(, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"})"),
              KindIs(ErrorKind::kUnsupported, HasSubstr("models.Dense in \"2_Dense\"")));
  EXPECT_THAT(modules(R"(, {"type": "a.Transformer", "path": "0_Transformer"})"),
              KindIs(ErrorKind::kUnsupported, HasSubstr("0_Transformer")));
  EXPECT_THAT(modules(", 1"), KindIs(ErrorKind::kInvalidArgument, HasSubstr("a module has no")));
  EXPECT_THAT(WithFile("modules.json", "{}"),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("is no JSON array")));
  // The pooling is where modules.json says.
  ASSERT_OK(WithFile("modules.json", R"([{"type": "x.Pooling", "path": "nowhere"}])"));
  EXPECT_EQ(LoadConfig(folder_)->pooling, Pooling::kMean);
}

TEST(CheckRanks, EachRankNeedsAHead) {
  const EncoderConfig config = TinyConfig();
  EXPECT_OK(CheckRanks(config, 1));
  EXPECT_OK(CheckRanks(config, 5));
  EXPECT_THAT(CheckRanks(config, 6),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("6 ranks for 5 attention heads")));
  EXPECT_THAT(CheckRanks(config, 0), KindIs(ErrorKind::kInvalidArgument, HasSubstr("0 ranks")));
}

}  // namespace
}  // namespace mp::model
