// Every wrong value is named with its file, its place, what it is and what it must be.

#include "mp/model/text/json_value.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/samples.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using test::KindIs;
using testing::EndsWith;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class JsonValueTest : public testing::Test {
 protected:
  absl::StatusOr<JsonValue> Load(absl::string_view json) {
    return JsonValue::Load(folder_.Write("f.json", json));
  }
  std::string Refusal(absl::string_view json) {
    const auto value = Load(json);
    EXPECT_THAT(value, KindIs(ErrorKind::kInvalidArgument));
    return Message(value.status());
  }
  // The message behind the file's name.
  std::string Named(absl::string_view message) const {
    return absl::StrCat(folder_ / "f.json", ": ", message);
  }

  const files::TempFolder folder_;
};

TEST_F(JsonValueTest, ReadsValues) {
  ASSERT_OK_AND_ASSIGN(const JsonValue file,
                       Load(R"({"a": {"flag": true, "text": "t", "n": 7}, "list": [1, 2]})"));
  EXPECT_TRUE(file.Has("a"));
  EXPECT_FALSE(file.Has("b"));
  ASSERT_OK_AND_ASSIGN(const JsonValue a, file.At("a"));
  EXPECT_EQ(*a.FlagAt("flag"), true);
  EXPECT_EQ(*a.TextAt("text"), "t");
  EXPECT_EQ(*a.WholeAt("n", 7, 7), 7);
  EXPECT_EQ(*a.OneOfAt("text", {"s", "t"}), "t");
  ASSERT_OK_AND_ASSIGN(const JsonValue list, file.At("list"));
  ASSERT_OK_AND_ASSIGN(const auto elements, list.Elements());
  EXPECT_EQ(elements.size(), 2u);
  EXPECT_EQ(elements[1].json(), 2);
  EXPECT_EQ(file.path(), folder_ / "f.json");
}

TEST_F(JsonValueTest, OutlivesItsParents) {
  auto inner = [&] {
    const auto file = Load(R"({"a": {"b": [{"c": "deep"}]}})");
    return *file->At("a")->At("b")->Elements();
  }();
  EXPECT_EQ(*inner[0].TextAt("c"), "deep");
  EXPECT_EQ(Message(inner[0].FlagAt("c").status()),
            Named(R"("a.b[0].c" is "deep", must be true or false)"));
}

TEST_F(JsonValueTest, RefusesFiles) {
  EXPECT_EQ(Refusal("{\"a\": }"), Named("is not valid JSON at byte 7"));
  EXPECT_EQ(Refusal("{\"a\": 1e999}"), Named("is not valid JSON"));
  EXPECT_EQ(Refusal("[1]"), Named("is no JSON object"));
  EXPECT_EQ(Refusal(""), Named("is empty"));
  EXPECT_EQ(Refusal("{\"a\": \"\xff\"}"), Named("is not valid JSON at byte 8"));
  EXPECT_THAT(Message(JsonValue::Load(folder_ / "none").status()),
              testing::HasSubstr("none: cannot be opened: No such file"));
  EXPECT_EQ(Refusal(std::string(100000, '[')), Named("is not valid JSON at byte 100001"));
  // A message that showed it would need as deep a stack.
  const std::string nested = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(Refusal("{\"a\": " + nested + "}"), Named("is nested too deeply"));
}

TEST_F(JsonValueTest, NamesWhatIsWrong) {
  ASSERT_OK_AND_ASSIGN(
      const JsonValue file,
      Load(R"({"a": {"x": null, "n": 1.5, "big": 18446744073709551615}, "l": 1})"));
  ASSERT_OK_AND_ASSIGN(const JsonValue a, file.At("a"));
  EXPECT_EQ(Message(a.At("x").status()), Named(R"("a.x" is missing)"));
  EXPECT_EQ(Message(file.TextAt("y\n").status()), Named(R"("y\n" is missing)"));
  EXPECT_EQ(Message(a.FlagAt("n").status()), Named(R"("a.n" is 1.5, must be true or false)"));
  EXPECT_EQ(Message(a.TextAt("n").status()), Named(R"("a.n" is 1.5, must be a string)"));
  EXPECT_EQ(Message(a.WholeAt("n", 1, 2).status()),
            Named(R"("a.n" is 1.5, must be a whole number in 1..2)"));
  EXPECT_THAT(Message(a.WholeAt("big", 0, 9).status()), EndsWith("whole number in 0..9"));
  EXPECT_THAT(Message(file.WholeAt("l", 2, 9).status()), EndsWith("whole number in 2..9"));
  EXPECT_THAT(Message(file.WholeAt("l", -1, 0).status()), EndsWith("whole number in -1..0"));
  EXPECT_EQ(Message(a.Elements().status()).substr(0, Named(R"("a" is {)").size()),
            Named(R"("a" is {)"));
  EXPECT_THAT(Message(a.Elements().status()), EndsWith(", must be an array"));
  ASSERT_OK_AND_ASSIGN(const JsonValue one, file.At("l"));
  EXPECT_EQ(Message(one.At("k").status()), Named(R"("l" is 1, must be an object)"));
  EXPECT_FALSE(one.Has("k"));
  EXPECT_EQ(Message(one.Because("has no place")), Named(R"("l" has no place)"));
}

TEST_F(JsonValueTest, RefusesOtherChoices) {
  ASSERT_OK_AND_ASSIGN(const JsonValue file, Load(R"({"type": "BPE"})"));
  EXPECT_THAT(
      file.OneOfAt("type", {"WordPiece", "Word"}),
      KindIs(ErrorKind::kUnsupported, Named(R"("type" is "BPE"; supported: WordPiece, Word)")));
}

}  // namespace
}  // namespace mp::model
