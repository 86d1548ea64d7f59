// Shows that embeddings of a small model are those of plain loops in double precision over the
// unsplit weights, for every number of ranks and threads, every batch size, on the pool, inline and
// over seeds of ready work; and that what is wrong with a folder or a text is told.
#include "mp/model/embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "mp/host/backend.h"
#include "tests/files/samples.h"
#include "tests/model/tiny_model.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using test::KindIs;
using ::testing::HasSubstr;

using Texts = std::vector<std::vector<int32_t>>;

constexpr float kPoison = 12345.0f;
#ifdef __SANITIZE_THREAD__  // OpenMP's threads look like races there
constexpr int kManyThreads = 1;
#else
constexpr int kManyThreads = 4;
#endif

class EmbedderTest : public ::testing::Test {
 protected:
  EmbedderTest() : folder_(temp_ / "model") { Use(TinyConfig()); }

  void Use(const EncoderConfig& config) {
    model_ = TinyModel::Make(config, 1);
    model_.Write(folder_);
  }
  absl::StatusOr<std::unique_ptr<Embedder>> Create(const EmbedderOptions& options,
                                                   host::Options host = {}) {
    host.devices = std::max(options.ranks, 1);
    if (host.threads == 0) host.threads = 2;
    MP_ASSIGN_OR_RETURN(auto backend, host::NewBackend(host));
    return Embedder::Create(std::move(backend), folder_, options);
  }
  std::vector<float> Embed(Embedder& embedder, const Texts& texts) {
    std::vector<float> rows(texts.size() * static_cast<size_t>(model_.config.hidden), kPoison);
    const TensorView output(rows.data(), DType::kF32,
                            {static_cast<int64_t>(texts.size()), model_.config.hidden});
    int64_t done = 0;
    EXPECT_OK(embedder.Embed(texts, output,
                             [&](const TokenBatch& batch) { done += batch.text_count(); }));
    EXPECT_EQ(done, static_cast<int64_t>(texts.size()));
    return rows;
  }
  void ExpectReference(const Texts& texts, const std::vector<float>& rows) {
    const auto hidden = static_cast<size_t>(model_.config.hidden);
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<double> wanted = model_.Embed(texts[i]);
      for (size_t j = 0; j < hidden; ++j) {
        ASSERT_NEAR(rows[i * hidden + j], wanted[j], 2e-6) << "text " << i << ", column " << j;
      }
    }
  }

  files::TempFolder temp_;
  const std::string folder_;
  TinyModel model_;
};

TEST_F(EmbedderTest, EveryNumberOfRanksGivesTheReference) {
  const Texts texts = RandomTexts(model_.config, 23, model_.config.max_tokens, 2);
  std::vector<float> first;
  for (const int ranks : {1, 2, 3, 4, 5}) {
    for (const int threads : {1, kManyThreads}) {
      SCOPED_TRACE(absl::StrCat(ranks, " ranks, ", threads, " threads"));
      ASSERT_OK_AND_ASSIGN(auto embedder,
                           Create({.ranks = ranks, .threads = threads, .batch_tokens = 40}));
      const std::vector<float> rows = Embed(*embedder, texts);
      ExpectReference(texts, rows);
      if (first.empty()) first = rows;
      for (size_t i = 0; i < rows.size(); ++i) ASSERT_NEAR(rows[i], first[i], 1e-6);
      EXPECT_EQ(Embed(*embedder, texts), rows) << "the same again, bit by bit";
    }
  }
}

TEST_F(EmbedderTest, EveryOrderOfReadyWork) {
  const Texts texts = RandomTexts(model_.config, 9, model_.config.max_tokens, 3);
  ASSERT_OK_AND_ASSIGN(auto embedder, Create({.ranks = 3, .batch_tokens = 20}));
  const std::vector<float> wanted = Embed(*embedder, texts);
  ExpectReference(texts, wanted);
  for (const auto execution : {host::Execution::kInline, host::Execution::kSeeded}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      ASSERT_OK_AND_ASSIGN(auto other, Create({.ranks = 3, .batch_tokens = 20},
                                              {.execution = execution, .seed = seed}));
      ASSERT_EQ(Embed(*other, texts), wanted) << "seed " << seed;
    }
  }
}

TEST_F(EmbedderTest, TheBatchSizeChangesNothing) {
  const Texts texts = RandomTexts(model_.config, 31, model_.config.max_tokens, 4);
  for (const int64_t tokens : {1, 17, 50, 1000}) {
    ASSERT_OK_AND_ASSIGN(auto embedder, Create({.ranks = 2, .batch_tokens = tokens}));
    ExpectReference(texts, Embed(*embedder, texts));
  }
}

TEST_F(EmbedderTest, OtherActivationAndPooling) {
  EncoderConfig config = TinyConfig();
  config.activation = Activation::kRelu;
  config.pooling = Pooling::kFirst;
  Use(config);
  const Texts texts = RandomTexts(config, 7, config.max_tokens, 5);
  ASSERT_OK_AND_ASSIGN(auto embedder, Create({.ranks = 5}));
  ExpectReference(texts, Embed(*embedder, texts));
}

TEST_F(EmbedderTest, SizesThatDivideByNothing) {
  EncoderConfig config = TinyConfig();
  config.heads = 7;
  config.hidden = 7;  // one column a head
  config.intermediate = 11;
  config.layers = 3;
  Use(config);
  const Texts texts = RandomTexts(config, 12, config.max_tokens, 6);
  for (const int ranks : {1, 3, 4, 7}) {
    ASSERT_OK_AND_ASSIGN(auto embedder, Create({.ranks = ranks}));
    ExpectReference(texts, Embed(*embedder, texts));
  }
}

TEST_F(EmbedderTest, FromTextToRow) {
  ASSERT_OK_AND_ASSIGN(auto embedder, Create({.ranks = 2}));
  const std::vector<int32_t> ids = embedder->tokenizer().Encode("ab C", 17);
  // [CLS] a ##b c [SEP]: letters and their continuations alternate from 5 on.
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 5, 8, 9, 3}));
  ExpectReference({ids}, Embed(*embedder, {ids}));
}

TEST_F(EmbedderTest, NothingToDo) {
  ASSERT_OK_AND_ASSIGN(auto embedder, Create({.ranks = 2}));
  EXPECT_TRUE(Embed(*embedder, {}).empty());
}

TEST_F(EmbedderTest, WrongTextsAreToldAndDoNoHarm) {
  ASSERT_OK_AND_ASSIGN(auto embedder, Create({.ranks = 2}));
  std::vector<float> rows(70, kPoison);
  const TensorView one(rows.data(), DType::kF32, {1, 35});
  const auto told = [&](const Texts& texts, const TensorView& output, const char* text) {
    EXPECT_THAT(embedder->Embed(texts, output),
                KindIs(ErrorKind::kInvalidArgument, HasSubstr(text)));
  };
  told({{}}, one, "text 0 has 0 tokens, must have 1..17");
  told({std::vector<int32_t>(18)}, one, "text 0 has 18 tokens");
  told({{1, 41}}, one, "text 0 has the token 41, must be in 0..40");
  told({{-1}}, one, "the token -1");
  told({{1}, {1}}, one, "the output is f32[1, 35], must be dense f32[2, 35]");
  told({{1}}, TensorView(rows.data(), DType::kF64, {1, 35}), "f64");
  told({{1}}, TensorView(nullptr, DType::kF32, {1, 35}), "the output");
  EXPECT_EQ(rows, std::vector<float>(70, kPoison));
  ExpectReference({{1, 2}}, Embed(*embedder, {{1, 2}}));
}

TEST_F(EmbedderTest, DamagedWeightsAreTold) {
  for (const float damage : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    model_ = TinyModel::Make(TinyConfig(), 1);
    model_.weights["embeddings.word_embeddings.weight"].values[7 * 35 + 3] = damage;
    model_.Write(folder_);
    ASSERT_OK_AND_ASSIGN(auto embedder, Create({.ranks = 3}));
    std::vector<float> rows(70, kPoison);
    const TensorView output(rows.data(), DType::kF32, {2, 35});
    EXPECT_OK(embedder->Embed({{1, 2}, {3}}, output));
    EXPECT_THAT(
        embedder->Embed({{1, 2}, {7}}, output),
        KindIs(ErrorKind::kDeviceError, HasSubstr("the embedding of text 1 has the length")));
    EXPECT_OK(embedder->Embed({{1, 2}, {3}}, output)) << "works on";
  }
}

TEST_F(EmbedderTest, WhatDoesNotFitIsTold) {
  EXPECT_THAT(Create({.ranks = 6}),
              KindIs(ErrorKind::kInvalidArgument, HasSubstr("6 ranks for 5 attention heads")));
  WriteFile(folder_ + "/vocab.txt", model_.Vocabulary() + "one\ntwo\n");
  EXPECT_THAT(Create({}), KindIs(ErrorKind::kInvalidArgument,
                                 HasSubstr("43 tokens, and config.json a vocab_size of 41")));
  model_.Write(folder_);
  EXPECT_OK(Create({}));
  ASSERT_EQ(std::remove((folder_ + "/vocab.txt").c_str()), 0);
  EXPECT_THAT(Create({}), ::testing::Not(test::IsOk()));
}

}  // namespace
}  // namespace mp::model
