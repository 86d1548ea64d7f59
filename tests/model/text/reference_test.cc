// With a real vocabulary, 500 texts that are hard to cut give the ids that Hugging Face's
// tokenizers library gives (testdata/tokens.jsonl, made by tools/reference/tokens.py), for both
// kinds of files and for every limit on the tokens.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "mp/model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/files/samples.h"
#include "tests/model/model_folder.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using Json = nlohmann::json;

constexpr int kAll = 100000;

struct Sample {
  std::string text;
  std::vector<int32_t> ids;
};

std::vector<Sample> ReadSamples() {
  const std::string file = files::ReadFile("tests/model/text/testdata/tokens.jsonl");
  std::vector<Sample> samples;
  size_t promised = 0;
  for (const absl::string_view line : absl::StrSplit(file, '\n', absl::SkipEmpty())) {
    const Json json = Json::parse(line);
    if (json.contains("made_by")) {
      promised = json["texts"];
    } else {
      samples.push_back({json.contains("text") ? json["text"].get<std::string>()
                                               : absl::HexStringToBytes(json["bytes"]),
                         json["ids"]});
    }
  }
  EXPECT_EQ(samples.size(), promised);
  return samples;
}

// The first tokens, and the last one.
std::vector<int32_t> Limited(std::vector<int32_t> ids, int max_tokens) {
  if (ids.size() <= static_cast<size_t>(max_tokens)) return ids;
  const int32_t last = ids.back();
  ids.resize(static_cast<size_t>(max_tokens));
  ids.back() = last;
  return ids;
}

void ExpectReference(const std::string& folder) {
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer, Tokenizer::Load(folder));
  EXPECT_EQ(tokenizer.vocab_size(), 30522);
  const std::vector<Sample> samples = ReadSamples();
  ASSERT_GE(samples.size(), 500u);
  for (const int max_tokens : {kAll, 512, 128, 16, 7, 3, 2}) {
    for (const Sample& sample : samples) {
      EXPECT_EQ(tokenizer.Encode(sample.text, max_tokens), Limited(sample.ids, max_tokens))
          << Json(sample.text).dump(-1, ' ', true, Json::error_handler_t::replace) << ", at most "
          << max_tokens << " tokens";
    }
  }
}

TEST(Reference, TokenizerJson) {
  ASSERT_TRUE(HasModel()) << kNoModel;
  ExpectReference(ModelFolder());
}

TEST(Reference, VocabTxt) {
  ASSERT_TRUE(HasModel()) << kNoModel;
  const files::TempFolder folder;
  for (const char* name : {"vocab.txt", "tokenizer_config.json"}) {
    std::filesystem::create_symlink(absl::StrCat(ModelFolder(), "/", name), folder / name);
  }
  ExpectReference(folder.path());
}

}  // namespace
}  // namespace mp::model
