// The supported form is read, setting by setting; each other one, and each key that is missing or
// of another kind, is refused by name.

#include "mp/model/text/tokenizer_json.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/files/samples.h"
#include "tests/model/text/small.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using Json = nlohmann::json;
using test::KindIs;
using testing::HasSubstr;
using testing::StartsWith;

class TokenizerJsonTest : public testing::Test {
 protected:
  absl::StatusOr<TokenizerParts> Read(const Json& file) {
    return ReadTokenizerJson(folder_.Write("tokenizer.json", file.dump()));
  }
  // The small file with `value` at this place, or without the place where `value` is discarded.
  Json With(const char* place, const Json& value) {
    Json file = SmallTokenizerJson();
    const Json::json_pointer pointer(place);
    if (value.is_discarded()) {
      file[pointer.parent_pointer()].erase(pointer.back());
    } else {
      file[pointer] = value;
    }
    return file;
  }
  std::string Refusal(const Json& file, ErrorKind kind) {
    const auto parts = Read(file);
    EXPECT_THAT(parts, KindIs(kind, StartsWith(folder_ / "tokenizer.json: ")));
    return std::string(parts.status().message()).substr((folder_ / "tokenizer.json: ").size());
  }
  std::string Unsupported(const char* place, const Json& value) {
    return Refusal(With(place, value), ErrorKind::kUnsupported);
  }
  std::string Invalid(const char* place, const Json& value) {
    return Refusal(With(place, value), ErrorKind::kInvalidArgument);
  }

  static inline const Json kNone = Json(Json::value_t::discarded);
  const files::TempFolder folder_;
};

TEST_F(TokenizerJsonTest, ReadsTheForm) {
  ASSERT_OK_AND_ASSIGN(const TokenizerParts parts, Read(SmallTokenizerJson()));
  EXPECT_EQ(parts.wordpiece.tokens().size(), 15u);
  EXPECT_EQ(parts.wordpiece.IdOf("##ble"), 11);
  EXPECT_EQ(parts.wordpiece.longest_word(), 100u);
  EXPECT_EQ(parts.added.tokens().size(), 5u);
  EXPECT_EQ(parts.added.At("[MASK]")->id, 4);
  EXPECT_EQ(parts.first, 2);
  EXPECT_EQ(parts.last, 3);
  EXPECT_EQ(parts.normalization, Normalization());
}

TEST_F(TokenizerJsonTest, ReadsTheNormalizer) {
  const auto read = [&](const char* key, const Json& value) {
    return Read(With(key, value))->normalization;
  };
  EXPECT_FALSE(read("/normalizer/clean_text", false).clean_text);
  EXPECT_FALSE(read("/normalizer/handle_chinese_chars", false).separate_ideographs);
  EXPECT_FALSE(read("/normalizer/lowercase", false).lowercase);
  EXPECT_FALSE(read("/normalizer/lowercase", false).strip_accents);  // follows
  EXPECT_FALSE(read("/normalizer/strip_accents", false).strip_accents);
  EXPECT_TRUE(read("/normalizer/strip_accents", false).lowercase);
  EXPECT_TRUE(read("/normalizer/strip_accents", kNone).strip_accents);
  Json file = With("/normalizer/lowercase", false);
  file["normalizer"]["strip_accents"] = true;
  EXPECT_TRUE(Read(file)->normalization.strip_accents);
}

TEST_F(TokenizerJsonTest, ReadsOtherForms) {
  EXPECT_OK(Read(With("/model/type", kNone)));
  EXPECT_EQ(Read(With("/model/max_input_chars_per_word", 7))->wordpiece.longest_word(), 7u);
  EXPECT_TRUE(Read(With("/added_tokens", kNone))->added.tokens().empty());
  ASSERT_OK_AND_ASSIGN(
      const TokenizerParts parts,
      Read(With("/post_processor",
                {{"type", "BertProcessing"}, {"cls", {"[MASK]", 4}}, {"sep", {"[PAD]", 0}}})));
  EXPECT_EQ(parts.first, 4);
  EXPECT_EQ(parts.last, 0);
  Json prefixed = With("/model/continuing_subword_prefix", "h");
  prefixed["model"]["unk_token"] = "un";
  ASSERT_OK_AND_ASSIGN(const TokenizerParts other, Read(prefixed));
  EXPECT_THAT(other.wordpiece.Cut("ai"), testing::ElementsAre(10, 8));
  EXPECT_THAT(other.wordpiece.Cut("az"), testing::ElementsAre(6));
}

TEST_F(TokenizerJsonTest, ReadsAddedTokensBeyondTheVocabulary) {
  Json file = SmallTokenizerJson();
  Json token = file["added_tokens"][0];
  for (int id = 15; id < 17; ++id) {
    token["id"] = id;
    token["content"] = absl::StrCat("<", id, ">");
    token["lstrip"] = token["rstrip"] = true;
    file["added_tokens"].push_back(token);
  }
  file["post_processor"] = {
      {"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}, {"sep", {"<16>", 16}}};
  ASSERT_OK_AND_ASSIGN(const TokenizerParts parts, Read(file));
  EXPECT_EQ(parts.added.At("<16>")->id, 16);
  EXPECT_EQ(parts.last, 16);
  EXPECT_EQ(parts.wordpiece.tokens().size(), 15u);
}

TEST_F(TokenizerJsonTest, RefusesOtherKinds) {
  EXPECT_EQ(Unsupported("/model/type", "BPE"), R"("model.type" is "BPE"; supported: WordPiece)");
  EXPECT_EQ(Unsupported("/model/type", "Unigram"),
            R"("model.type" is "Unigram"; supported: WordPiece)");
  EXPECT_EQ(Unsupported("/normalizer/type", "Sequence"),
            R"("normalizer.type" is "Sequence"; supported: BertNormalizer)");
  EXPECT_EQ(Unsupported("/normalizer", nullptr),
            R"(has no "normalizer"; supported: BertNormalizer)");
  EXPECT_EQ(Unsupported("/pre_tokenizer/type", "Whitespace"),
            R"("pre_tokenizer.type" is "Whitespace"; supported: BertPreTokenizer)");
  EXPECT_THAT(Unsupported("/pre_tokenizer", kNone), HasSubstr(R"(no "pre_tokenizer")"));
  EXPECT_EQ(Unsupported("/post_processor/type", "RobertaProcessing"),
            R"("post_processor.type" is "RobertaProcessing"; )"
            "supported: BertProcessing, TemplateProcessing");
  EXPECT_THAT(Unsupported("/post_processor", nullptr), HasSubstr(R"(no "post_processor")"));
  EXPECT_EQ(Unsupported("/added_tokens/1/normalized", true),
            R"("added_tokens[1].normalized" is true; supported: false)");
  EXPECT_EQ(Unsupported("/added_tokens/4/single_word", true),
            R"("added_tokens[4].single_word" is true; supported: false)");
}

TEST_F(TokenizerJsonTest, RefusesOtherTemplates) {
  const std::string wanted = "supported: [CLS] $A [SEP], all of type 0";
  const Json piece = {{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 1}}}};
  EXPECT_THAT(Unsupported("/post_processor/single/0", piece), HasSubstr(wanted));
  EXPECT_THAT(Unsupported("/post_processor/single/0", Json::object()),
              testing::AllOf(StartsWith(R"("post_processor.single[0]" is {})"), HasSubstr(wanted)));
  EXPECT_THAT(Unsupported("/post_processor/single/1/Sequence/id", "B"), HasSubstr(wanted));
  EXPECT_THAT(Unsupported("/post_processor/single/1/Sequence/type_id", 1), HasSubstr(wanted));
  EXPECT_THAT(Unsupported("/post_processor/single", Json::array()), HasSubstr(wanted));
  EXPECT_THAT(
      Unsupported("/post_processor/special_tokens/[SEP]/ids", {3, 3}),
      HasSubstr(R"("post_processor.special_tokens.[SEP].ids" is [3,3]; supported: one id)"));
}

TEST_F(TokenizerJsonTest, RefusesAWrongVocabulary) {
  EXPECT_EQ(Invalid("/model/vocab/a", 15),
            R"("model.vocab" has "a" with the id 15, must be in 0..14 for 15 tokens)");
  EXPECT_EQ(Invalid("/model/vocab/a", -1),
            R"("model.vocab" has "a" with the id -1, must be in 0..14 for 15 tokens)");
  EXPECT_THAT(Invalid("/model/vocab/a", "1"), HasSubstr(R"(with the id "1")"));
  EXPECT_EQ(Invalid("/model/vocab/un", 5),
            R"("model.vocab" has the id 5 twice, for "hello" and "un")");
  EXPECT_EQ(Invalid("/model/vocab/", 15), R"("model.vocab" has an empty token)");
  EXPECT_EQ(Invalid("/model/vocab", {1}), R"("model.vocab" is [1], must be an object)");
  EXPECT_EQ(Invalid("/model/vocab", Json::object()),
            R"("model.vocab" has no "[UNK]", which stands for unknown words)");
  EXPECT_EQ(Invalid("/model/unk_token", "[unk]"),
            R"("model.vocab" has no "[unk]", which stands for unknown words)");
}

TEST_F(TokenizerJsonTest, RefusesWrongIds) {
  EXPECT_EQ(Invalid("/added_tokens/4/id", 5),
            R"("added_tokens[4]" gives "[MASK]" the id 5, must be 4)");
  EXPECT_EQ(Invalid("/added_tokens/4/content", "[X]"),
            R"("added_tokens[4]" gives "[X]" the id 4, must be 15)");
  EXPECT_EQ(Invalid("/added_tokens/4/content", ""), R"("added_tokens[4]" has no content)");
  Json twice = SmallTokenizerJson();
  twice["added_tokens"][5] = twice["added_tokens"][2];
  EXPECT_EQ(Refusal(twice, ErrorKind::kInvalidArgument),
            R"("added_tokens[5]" is "[CLS]" once more)");
  EXPECT_EQ(Invalid("/post_processor/special_tokens/[SEP]/ids", {4}),
            R"("post_processor" gives "[SEP]" the id 4, which is not that token's)");
  EXPECT_EQ(Invalid("/post_processor", {{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}}),
            R"("post_processor.sep" is missing)");
  EXPECT_EQ(
      Invalid("/post_processor", {{"type", "BertProcessing"}, {"cls", {"[CLS]", 4294967298}}}),
      R"("post_processor.cls" is ["[CLS]",4294967298], must be a token and its id)");
}

TEST_F(TokenizerJsonTest, NamesWhatIsMissing) {
  for (const char* place :
       {"/model/unk_token", "/model/continuing_subword_prefix", "/model/vocab",
        "/normalizer/clean_text", "/normalizer/handle_chinese_chars", "/normalizer/lowercase",
        "/normalizer/type", "/pre_tokenizer/type", "/post_processor/type", "/post_processor/single",
        "/post_processor/special_tokens", "/model"}) {
    std::string name(place + 1);
    std::replace(name.begin(), name.end(), '/', '.');
    EXPECT_EQ(Invalid(place, kNone), absl::StrCat("\"", name, "\" is missing"));
    EXPECT_EQ(Invalid(place, nullptr), absl::StrCat("\"", name, "\" is missing"));
  }
  for (const char* key : {"id", "content", "normalized", "single_word"}) {
    const std::string place = absl::StrCat("/added_tokens/3/", key);
    EXPECT_EQ(Invalid(place.c_str(), kNone),
              absl::StrCat("\"added_tokens[3].", key, "\" is missing"));
  }
  EXPECT_EQ(Invalid("/model/max_input_chars_per_word", kNone),
            R"("model.max_input_chars_per_word" is missing)");
}

TEST_F(TokenizerJsonTest, RefusesOtherValues) {
  EXPECT_EQ(Invalid("/normalizer/lowercase", 1),
            R"("normalizer.lowercase" is 1, must be true or false)");
  EXPECT_EQ(Invalid("/normalizer/strip_accents", "no"),
            R"("normalizer.strip_accents" is "no", must be true or false)");
  EXPECT_EQ(Invalid("/model/max_input_chars_per_word", 0),
            R"("model.max_input_chars_per_word" is 0, must be a whole number in 1..10000)");
  EXPECT_EQ(Invalid("/model", 1), R"("model" is 1, must be an object)");
  EXPECT_THAT(Invalid("/added_tokens", 1), R"("added_tokens" is 1, must be an array)");
}

}  // namespace
}  // namespace mp::model
