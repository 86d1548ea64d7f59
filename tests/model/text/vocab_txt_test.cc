// A vocabulary is read line by line, with the settings of tokenizer_config.json where it is there;
// what is wrong is named by its line or key.

#include "mp/model/text/vocab_txt.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/samples.h"
#include "tests/model/text/small.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using test::KindIs;
using testing::ElementsAre;

class VocabTxtTest : public testing::Test {
 protected:
  absl::StatusOr<TokenizerParts> Read(absl::string_view vocab, absl::string_view config = "{}") {
    return ReadVocabTxt(folder_.Write("vocab.txt", vocab), folder_.Write("c.json", config));
  }
  absl::StatusOr<TokenizerParts> ReadWith(absl::string_view config) {
    return Read(SmallVocabTxt(), config);
  }
  // The message behind the file's name.
  std::string Refusal(const absl::StatusOr<TokenizerParts>& parts, absl::string_view file,
                      ErrorKind kind = ErrorKind::kInvalidArgument) {
    const std::string start = absl::StrCat(folder_ / file, ": ");
    EXPECT_THAT(parts, KindIs(kind, testing::StartsWith(start)));
    return std::string(parts.status().message()).substr(start.size());
  }
  std::string RefusalOfVocab(absl::string_view vocab) { return Refusal(Read(vocab), "vocab.txt"); }
  std::string RefusalOfConfig(absl::string_view config) {
    return Refusal(ReadWith(config), "c.json");
  }
  std::string Unsupported(absl::string_view config) {
    return Refusal(ReadWith(config), "c.json", ErrorKind::kUnsupported);
  }

  const files::TempFolder folder_;
};

TEST_F(VocabTxtTest, ReadsLines) {
  for (const std::string& vocab :
       {SmallVocabTxt(), absl::StrReplaceAll(SmallVocabTxt(), {{"\n", "\r\n"}}),
        SmallVocabTxt().substr(0, SmallVocabTxt().size() - 1)}) {
    ASSERT_OK_AND_ASSIGN(const TokenizerParts parts, Read(vocab));
    EXPECT_EQ(parts.wordpiece.tokens().size(), 15u);
    EXPECT_EQ(parts.wordpiece.IdOf("[PAD]"), 0);
    EXPECT_EQ(parts.wordpiece.IdOf("##\u00e9"), 14);
    EXPECT_EQ(parts.wordpiece.longest_word(), 100u);
    EXPECT_THAT(parts.wordpiece.Cut("zzz"), ElementsAre(1));
    EXPECT_EQ(parts.added.tokens().size(), 5u);
    EXPECT_EQ(parts.added.At("[MASK]")->id, 4);
    EXPECT_EQ(parts.first, 2);
    EXPECT_EQ(parts.last, 3);
    EXPECT_EQ(parts.normalization, Normalization());
  }
}

TEST_F(VocabTxtTest, NeedsNoConfig) {
  const auto parts =
      ReadVocabTxt(folder_.Write("vocab.txt", SmallVocabTxt()), folder_ / "none.json");
  ASSERT_OK(parts);
  EXPECT_EQ(parts->normalization, Normalization());
}

TEST_F(VocabTxtTest, ReadsTheSettings) {
  const auto read = [&](absl::string_view config) { return ReadWith(config)->normalization; };
  EXPECT_EQ(read(R"({"do_lower_case": true, "strip_accents": null})"), Normalization());
  EXPECT_EQ(read(R"({"do_lower_case": false})"),
            Normalization({.strip_accents = false, .lowercase = false}));
  EXPECT_EQ(read(R"({"do_lower_case": false, "strip_accents": true})"),
            Normalization({.lowercase = false}));
  EXPECT_EQ(read(R"({"strip_accents": false})"), Normalization({.strip_accents = false}));
  EXPECT_EQ(read(R"({"tokenize_chinese_chars": false})"),
            Normalization({.separate_ideographs = false}));
}

TEST_F(VocabTxtTest, ReadsTheSpecialTokens) {
  ASSERT_OK_AND_ASSIGN(const TokenizerParts parts,
                       ReadWith(R"({"unk_token": "un", "cls_token": {"content": "hello"},
                                    "sep_token": "hi", "pad_token": "a", "mask_token": ","})"));
  EXPECT_EQ(parts.first, 5);
  EXPECT_EQ(parts.last, 8);
  EXPECT_THAT(parts.wordpiece.Cut("zzz"), ElementsAre(6));
  EXPECT_EQ(parts.added.At("[CLS]"), nullptr);
  EXPECT_EQ(parts.added.At("a")->id, 10);
}

TEST_F(VocabTxtTest, AcceptsWhatChangesNothing) {
  EXPECT_OK(ReadWith(R"({"tokenizer_class": "BertTokenizer", "do_basic_tokenize": true,
                         "never_split": null, "additional_special_tokens": [],
                         "added_tokens_decoder": {"4": {"content": "[MASK]", "special": true}},
                         "model_max_length": 512, "name_or_path": "x"})"));
  EXPECT_OK(ReadWith(R"({"tokenizer_class": "BertTokenizerFast", "never_split": []})"));
}

TEST_F(VocabTxtTest, RefusesOtherTokenizers) {
  EXPECT_EQ(Unsupported(R"({"tokenizer_class": "T5Tokenizer"})"),
            R"("tokenizer_class" is "T5Tokenizer"; supported: BertTokenizer, BertTokenizerFast)");
  EXPECT_EQ(Unsupported(R"({"do_basic_tokenize": false})"), R"("do_basic_tokenize" is false)");
  EXPECT_EQ(Unsupported(R"({"never_split": ["x"]})"), R"("never_split" is ["x"]; supported: none)");
  EXPECT_EQ(Unsupported(R"({"additional_special_tokens": ["x"]})"),
            R"("additional_special_tokens" is ["x"]; supported: none)");
  EXPECT_EQ(Unsupported(R"({"added_tokens_decoder": {"9": {"content": "<x>"}}})"),
            R"("added_tokens_decoder" has "<x>", which is none of the five special tokens)");
}

TEST_F(VocabTxtTest, RefusesAWrongConfig) {
  EXPECT_EQ(RefusalOfConfig("{"), "is not valid JSON at byte 2");
  EXPECT_EQ(RefusalOfConfig(R"({"do_lower_case": "yes"})"),
            R"("do_lower_case" is "yes", must be true or false)");
  EXPECT_EQ(RefusalOfConfig(R"({"strip_accents": 1})"),
            R"("strip_accents" is 1, must be true or false)");
  EXPECT_EQ(RefusalOfConfig(R"({"tokenize_chinese_chars": 1})"),
            R"("tokenize_chinese_chars" is 1, must be true or false)");
  EXPECT_EQ(RefusalOfConfig(R"({"cls_token": 1})"), R"("cls_token" is 1, must be a string)");
  EXPECT_EQ(RefusalOfConfig(R"({"cls_token": {"x": 1}})"), R"("cls_token.content" is missing)");
  EXPECT_EQ(RefusalOfConfig(R"({"added_tokens_decoder": 1})"),
            R"("added_tokens_decoder" is 1, must be an object)");
}

TEST_F(VocabTxtTest, RefusesAWrongVocabulary) {
  EXPECT_EQ(RefusalOfVocab(""), "is empty");
  EXPECT_EQ(RefusalOfVocab("[PAD]\n\n[UNK]\n"), "line 2 is empty");
  EXPECT_EQ(RefusalOfVocab("[PAD]\n[UNK]\n\n"), "line 3 is empty");
  EXPECT_EQ(RefusalOfVocab("[PAD]\na\xff\n"), "line 2 is not UTF-8");
  EXPECT_EQ(RefusalOfVocab("[PAD]\na\nb\na\n"), "line 4 has the token \"a\" of line 2 again");
  EXPECT_EQ(RefusalOfVocab("[PAD]\na\n"), "has no \"[UNK]\", which stands for unknown words");
  EXPECT_EQ(RefusalOfVocab("[UNK]\n[CLS]\n[SEP]\n[PAD]\n"), "has no \"[MASK]\", the mask_token");
  EXPECT_EQ(Refusal(ReadWith(R"({"sep_token": "</s>"})"), "vocab.txt"),
            "has no \"</s>\", the sep_token");
  EXPECT_THAT(ReadVocabTxt(folder_ / "none.txt", folder_ / "none").status().message(),
              testing::HasSubstr("none.txt: cannot be opened: No such file"));
}

}  // namespace
}  // namespace mp::model
