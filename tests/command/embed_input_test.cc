// Lines are what people think they are, and what is shown of them fits a line of a terminal.
#include "mp/command/embed_input.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/samples.h"
#include "tests/model/tiny_model.h"
#include "tests/support/status_matchers.h"

namespace mp::command {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ReadAll, ReadsFilesOfAnySize) {
  files::TempFolder folder;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{3} << 20) + 7}) {
    std::string bytes(size, 'x');
    if (size > 0) bytes[size - 1] = '\0';
    ASSERT_OK_AND_ASSIGN(const std::string text, ReadAll(folder.Write("file", bytes)));
    EXPECT_TRUE(text == bytes) << size;
  }
  const absl::Status missing = ReadAll(folder / "nowhere").status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
}

TEST(SplitLines, WithAndWithoutAnEnd) {
  EXPECT_THAT(SplitLines(""), IsEmpty());
  EXPECT_THAT(SplitLines("\n"), ElementsAre(""));
  EXPECT_THAT(SplitLines("a"), ElementsAre("a"));
  EXPECT_THAT(SplitLines("a\n"), ElementsAre("a"));
  EXPECT_THAT(SplitLines("a\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_THAT(SplitLines("a\r\n\r\n\rb\r"), ElementsAre("a", "", "\rb"));
}

TEST(Shown, FitsOneLine) {
  EXPECT_EQ(Shown("", 10), "");
  EXPECT_EQ(Shown("plain", 5), "plain");
  EXPECT_EQ(Shown("plain", 4), "plai...");
  EXPECT_EQ(Shown("a\tb\x1b[1m", 100), "a\\tb\\x1b[1m");
  EXPECT_EQ(Shown("\xff\xc3", 100), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(Shown("\xc3\xa4\xc3\xa4", 3), "\xc3\xa4...");  // no half characters
  EXPECT_EQ(Shown("\t\t", 3), "\\t...");                   // and no half escapes
}

TEST(EncodeLines, CountsWhatIsOdd) {
  files::TempFolder folder;
  model::EncoderConfig config = model::TinyConfig();
  config.vocab = 60;
  const model::TinyModel model = model::TinyModel::Make(config, 1);
  model.Write(folder / "model");
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, model::Tokenizer::Load(folder / "model"));
  const EncodedLines lines =
      EncodeLines(tokenizer, {"a", "", " \t ", "a b c", "a b c d", "\xff", "a\xff b"}, 5);
  EXPECT_EQ(lines.ids.size(), 7u);
  EXPECT_THAT(lines.ids[0], ElementsAre(2, 5, 3));
  EXPECT_THAT(lines.ids[1], ElementsAre(2, 3));
  EXPECT_THAT(lines.ids[3], ElementsAre(2, 5, 7, 9, 3));
  EXPECT_THAT(lines.ids[4], ElementsAre(2, 5, 7, 9, 3));
  EXPECT_THAT(lines.ids[6], ElementsAre(2, 5, 7, 3));
  EXPECT_EQ(lines.tokens, 3 + 2 + 2 + 5 + 5 + 2 + 4);
  EXPECT_EQ(lines.empty, 2);
  EXPECT_EQ(lines.cut, 1);
  EXPECT_EQ(lines.invalid, 2);
}

}  // namespace
}  // namespace mp::command
