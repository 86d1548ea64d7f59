// Where words begin and end, and what remains of one that is too long.

#include "mp/model/text/words.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mp::model {
namespace {

using testing::ElementsAre;

std::vector<std::string> WordsOf(absl::string_view text, const Normalization& how = {},
                                 size_t longest_word = 100) {
  const AddedTokens added({{"[X]", 7}});
  Words words(text, how, added, longest_word);
  std::vector<std::string> result;
  while (const auto word = words.Next()) result.emplace_back(*word);
  EXPECT_EQ(words.Next(), std::nullopt);
  return result;
}

TEST(Words, AreCutAtWhitespace) {
  EXPECT_THAT(WordsOf(""), ElementsAre());
  EXPECT_THAT(WordsOf(" \t\r\n "), ElementsAre());
  EXPECT_THAT(WordsOf("one"), ElementsAre("one"));
  EXPECT_THAT(WordsOf("  one two\nthree\u3000four "), ElementsAre("one", "two", "three", "four"));
}

TEST(Words, OfUncleanTextAreCutAtAllWhitespace) {
  EXPECT_THAT(WordsOf("a\x0b"
                      "b\u0085c\u2028d\u200be",
                      {.clean_text = false}),
              ElementsAre("a", "b", "c", "d\u200be"));
  EXPECT_THAT(WordsOf("a\x0b"
                      "b\u0085c"),
              ElementsAre("abc"));  // dropped before they can cut
}

TEST(Words, OfPunctuationAreSingle) {
  EXPECT_THAT(WordsOf("Don't!"), ElementsAre("don", "'", "t", "!"));
  EXPECT_THAT(WordsOf("..."), ElementsAre(".", ".", "."));
  EXPECT_THAT(WordsOf("- a -b- "), ElementsAre("-", "a", "-", "b", "-"));
  EXPECT_THAT(WordsOf("\u00bfqu\u00e9?\u2026"), ElementsAre("\u00bf", "que", "?", "\u2026"));
}

TEST(Words, OfIdeographsAreSingle) {
  EXPECT_THAT(WordsOf("a\u4e2d\u6587b"), ElementsAre("a", "\u4e2d", "\u6587", "b"));
  EXPECT_THAT(WordsOf("a\u4e2d\u6587b", {.separate_ideographs = false}),
              ElementsAre("a\u4e2d\u6587b"));
}

TEST(Words, EndAtAnAddedToken) {
  const AddedTokens added({{"[X]", 7}});
  Words words("a b[X] c", {}, added, 100);
  EXPECT_EQ(words.Next(), "a");
  EXPECT_EQ(words.Next(), "b");
  EXPECT_EQ(words.Next(), std::nullopt);
  EXPECT_EQ(words.rest(), "[X] c");
}

TEST(Words, KeepOneCharacterMoreThanTheLongest) {
  EXPECT_THAT(WordsOf("abc abcd abcde abcdef g", {}, 3),
              ElementsAre("abc", "abcd", "abcd", "abcd", "g"));
  EXPECT_THAT(WordsOf(absl::StrCat(std::string(1 << 20, 'a'), ".b"), {}, 100),
              ElementsAre(std::string(101, 'a'), ".", "b"));
}

}  // namespace
}  // namespace mp::model
