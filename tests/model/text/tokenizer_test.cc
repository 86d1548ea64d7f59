// Texts become ids, whichever kind of file described the tokenizer; no text of any size is read
// further than the ids demand.

#include "mp/model/text/tokenizer.h"

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/samples.h"
#include "tests/model/text/small.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using test::KindIs;
using testing::ElementsAre;

class TokenizerTest : public testing::TestWithParam<const char*> {
 protected:
  TokenizerTest() {
    const bool is_json = GetParam() == std::string("tokenizer.json");
    folder_.Write(GetParam(), is_json ? SmallTokenizerJson().dump() : SmallVocabTxt());
  }
  std::vector<int32_t> Encode(absl::string_view text, int max_tokens = 512) {
    auto tokenizer = Tokenizer::Load(folder_.path());
    EXPECT_OK(tokenizer);
    return tokenizer->Encode(text, max_tokens);
  }

  const files::TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Files, TokenizerTest, testing::Values("tokenizer.json", "vocab.txt"),
                         [](const auto& file) { return std::string(file.param, 5); });

TEST_P(TokenizerTest, EncodesText) {
  EXPECT_THAT(Encode(""), ElementsAre(2, 3));
  EXPECT_THAT(Encode(" \n"), ElementsAre(2, 3));
  EXPECT_THAT(Encode("H\u00e9llo,\u4e2duna"), ElementsAre(2, 5, 12, 13, 1, 3));
  EXPECT_THAT(Encode("hi unh able\tA"), ElementsAre(2, 8, 6, 7, 9, 10, 3));
  EXPECT_THAT(Encode("able aBLE ab zzz"), ElementsAre(2, 9, 9, 1, 1, 3));
}

TEST_P(TokenizerTest, FindsSpecialTokensInTheRawText) {
  EXPECT_THAT(Encode("[SEP]"), ElementsAre(2, 3, 3));
  EXPECT_THAT(Encode("hi[MASK]hi [CLS][PAD]"), ElementsAre(2, 8, 4, 8, 2, 0, 3));
  EXPECT_THAT(Encode("[mask] [ MASK]"), ElementsAre(2, 1, 1, 1, 1, 1, 1, 3));
  EXPECT_THAT(Encode("[[SEP]"), ElementsAre(2, 1, 3, 3));
  EXPECT_THAT(Encode("\xe4[SEP]\xff"), ElementsAre(2, 3, 3));
  EXPECT_THAT(Encode("[S\x01"
                     "EP]"),
              ElementsAre(2, 1, 1, 1, 3));
}

TEST_P(TokenizerTest, KeepsTheFirstTokens) {
  EXPECT_THAT(Encode("hi hi hi", 5), ElementsAre(2, 8, 8, 8, 3));
  EXPECT_THAT(Encode("hi hi hi", 4), ElementsAre(2, 8, 8, 3));
  EXPECT_THAT(Encode("hi hi hi", 3), ElementsAre(2, 8, 3));
  EXPECT_THAT(Encode("hi hi hi", 2), ElementsAre(2, 3));
  EXPECT_THAT(Encode("unhhh", 4), ElementsAre(2, 6, 7, 3));  // within a word
  EXPECT_THAT(Encode("[MASK][MASK][MASK]", 4), ElementsAre(2, 4, 4, 3));
  EXPECT_THAT(Encode("hi [MASK]", 3), ElementsAre(2, 8, 3));
}

TEST_P(TokenizerTest, AnOverlongWordIsUnknown) {
  const std::string word = "un" + std::string(98, 'h');
  EXPECT_EQ(Encode(word, 512).size(), 1u + 99u + 1u);
  EXPECT_THAT(Encode(word + "h"), ElementsAre(2, 1, 3));
  EXPECT_EQ(Encode(word + "\u0301", 512).size(), 1u + 99u + 1u);
  EXPECT_THAT(Encode(std::string(1 << 20, 'h') + " hi"), ElementsAre(2, 1, 8, 3));
}

// Of 8 GiB only the first pages can be read: a step beyond them ends the test.
TEST_P(TokenizerTest, ReadsNoFurtherThanNeeded) {
  constexpr size_t kSize = size_t{1} << 33;
  constexpr size_t kReadable = size_t{1} << 16;
  void* memory =
      mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory, kReadable, PROT_READ | PROT_WRITE), 0);
  char* bytes = static_cast<char*>(memory);
  for (size_t i = 0; i < kReadable; i += 8) std::memcpy(bytes + i, "hi a[SEP", 8);
  const std::vector<int32_t> ids = Encode(absl::string_view(bytes, kSize), 512);
  EXPECT_EQ(ids.size(), 512u);
  EXPECT_THAT(std::vector<int32_t>(ids.begin(), ids.begin() + 6), ElementsAre(2, 8, 10, 1, 1, 10));
  EXPECT_EQ(munmap(memory, kSize), 0);
}

TEST_P(TokenizerTest, NamesIds) {
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer, Tokenizer::Load(folder_.path()));
  EXPECT_EQ(tokenizer.vocab_size(), 15);
  EXPECT_EQ(tokenizer.TextOf(0), "[PAD]");
  EXPECT_EQ(tokenizer.TextOf(11), "##ble");
  EXPECT_EQ(tokenizer.TextOf(15), "");
  EXPECT_EQ(tokenizer.TextOf(-1), "");
}

TEST(Tokenizer, HasTokensBeyondTheVocabulary) {
  nlohmann::json file = SmallTokenizerJson();
  nlohmann::json token = file["added_tokens"][0];
  token["id"] = 15;
  token["content"] = "[MASK]+";
  file["added_tokens"].push_back(token);
  const files::TempFolder folder;
  folder.Write("tokenizer.json", file.dump());
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer, Tokenizer::Load(folder.path()));
  EXPECT_EQ(tokenizer.vocab_size(), 16);
  EXPECT_EQ(tokenizer.TextOf(15), "[MASK]+");
  EXPECT_THAT(tokenizer.Encode("[MASK]+[MASK]a", 9), ElementsAre(2, 15, 4, 10, 3));
}

TEST(Tokenizer, TakesTokenizerJsonFirst) {
  const files::TempFolder folder;
  folder.Write("vocab.txt", SmallVocabTxt());
  folder.Write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_THAT(Tokenizer::Load(folder.path())->Encode("HI hi", 9), ElementsAre(2, 1, 8, 3));
  folder.Write("tokenizer.json", SmallTokenizerJson().dump());
  EXPECT_THAT(Tokenizer::Load(folder.path())->Encode("HI hi", 9), ElementsAre(2, 8, 8, 3));
  folder.Write("tokenizer.json", "{}");
  EXPECT_THAT(Tokenizer::Load(folder.path()),
              KindIs(ErrorKind::kInvalidArgument, folder / "tokenizer.json: \"model\" is missing"));
}

TEST(Tokenizer, NeedsFiles) {
  const files::TempFolder folder;
  EXPECT_THAT(Tokenizer::Load(folder.path()),
              KindIs(ErrorKind::kInvalidArgument,
                     folder.path() + ": has neither a tokenizer.json nor a vocab.txt"));
  EXPECT_THAT(Tokenizer::Load(folder / "none"),
              KindIs(ErrorKind::kInvalidArgument, testing::HasSubstr("has neither")));
}

}  // namespace
}  // namespace mp::model
