// Shows that the real model's embeddings are those of PyTorch (testdata/embeddings.npy, made by
// tools/reference/embeddings.py) for texts in many languages of 2..256 tokens, for every number of
// ranks, and that all numbers of ranks agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "mp/files/tensor_file.h"
#include "mp/host/backend.h"
#include "mp/model/embedder.h"
#include "tests/files/samples.h"
#include "tests/model/model_folder.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

constexpr int64_t kHidden = 384;

struct Reference {
  std::vector<std::string> texts;
  std::vector<float> rows;
};

Reference LoadReference() {
  Reference reference;
  reference.texts = absl::StrSplit(files::ReadFile("tests/model/testdata/sentences.txt"), '\n');
  reference.texts.pop_back();  // behind the last line's end
  const auto file = files::TensorFile::Open("tests/model/testdata/embeddings.npy");
  EXPECT_OK(file);
  const TensorView rows = file->view(0);
  EXPECT_EQ(rows.shape(), Shape({static_cast<int64_t>(reference.texts.size()), kHidden}));
  reference.rows = files::Values<float>(absl::string_view(static_cast<const char*>(rows.data()),
                                                          static_cast<size_t>(rows.size_bytes())));
  return reference;
}

void ExpectClose(const Reference& reference, const std::vector<float>& rows) {
  for (size_t i = 0; i < reference.texts.size(); ++i) {
    double dot = 0, most = 0, square = 0;
    for (size_t j = i * kHidden; j < (i + 1) * kHidden; ++j) {
      const auto ours = static_cast<double>(rows[j]);
      const auto theirs = static_cast<double>(reference.rows[j]);
      dot += ours * theirs;
      square += ours * ours;
      most = std::max(most, std::abs(ours - theirs));
    }
    EXPECT_GT(dot, 0.99999) << reference.texts[i];
    EXPECT_LT(most, 2e-5) << reference.texts[i];
    EXPECT_NEAR(square, 1, 1e-5) << reference.texts[i];
  }
}

TEST(Reference, EveryNumberOfRanks) {
  ASSERT_TRUE(HasModel()) << kNoModel;
  const Reference reference = LoadReference();
  ASSERT_GE(reference.texts.size(), 20u);
  std::vector<float> first;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 12}) {
    SCOPED_TRACE(absl::StrCat(ranks, " ranks"));
    ASSERT_OK_AND_ASSIGN(auto backend, host::NewBackend({.devices = ranks}));
    ASSERT_OK_AND_ASSIGN(auto embedder, Embedder::Create(backend, ModelFolder(), {.ranks = ranks}));
    ASSERT_EQ(embedder->config().hidden, kHidden);
    std::vector<std::vector<int32_t>> texts;
    for (const std::string& text : reference.texts) {
      texts.push_back(embedder->tokenizer().Encode(text, 256));
    }
    std::vector<float> rows(reference.rows.size(), NAN);
    ASSERT_OK(embedder->Embed(texts, TensorView(rows.data(), DType::kF32,
                                                {static_cast<int64_t>(texts.size()), kHidden})));
    ExpectClose(reference, rows);
    if (first.empty()) first = rows;
    float most = 0;
    for (size_t i = 0; i < rows.size(); ++i) most = std::max(most, std::abs(rows[i] - first[i]));
    EXPECT_LT(most, 1e-6f);
  }
}

}  // namespace
}  // namespace mp::model
