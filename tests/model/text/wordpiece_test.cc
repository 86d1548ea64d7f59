// Words are cut greedily; every way of being unknown gives the one unknown token.

#include "mp/model/text/wordpiece.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace mp::model {
namespace {

using testing::ElementsAre;

WordPiece Make(std::vector<std::string> tokens, WordPieceOptions options = {}) {
  auto wordpiece = WordPiece::Create(std::move(tokens), std::move(options));
  EXPECT_OK(wordpiece);
  return *std::move(wordpiece);
}

TEST(WordPiece, TakesTheLongestPieces) {
  const WordPiece wordpiece =
      Make({"un", "[UNK]", "##aff", "##able", "unaff", "##a", "a", "##b", "able"});
  EXPECT_THAT(wordpiece.Cut("un"), ElementsAre(0));
  EXPECT_THAT(wordpiece.Cut("unable"), ElementsAre(0, 3));
  EXPECT_THAT(wordpiece.Cut("unaffable"), ElementsAre(4, 3));
  EXPECT_THAT(wordpiece.Cut("able"), ElementsAre(8));
  EXPECT_THAT(wordpiece.Cut("aab"), ElementsAre(6, 5, 7));
}

TEST(WordPiece, KnowsItsLongestToken) {
  const WordPiece wordpiece = Make({"[UNK]", "longest", "##longest"});
  EXPECT_THAT(wordpiece.Cut("longest"), ElementsAre(1));
  EXPECT_THAT(wordpiece.Cut("longestlongest"), ElementsAre(1, 2));
  const WordPiece plain = Make({"[UNK]", "a", "longest"}, {.prefix = ""});
  EXPECT_THAT(plain.Cut("longesta"), ElementsAre(2, 1));
}

TEST(WordPiece, IsGreedyAndDoesNotTurnBack) {
  const WordPiece wordpiece = Make({"[UNK]", "ab", "a", "##bc"});
  EXPECT_THAT(wordpiece.Cut("abc"), ElementsAre(0));  // not a, ##bc
}

TEST(WordPiece, KnowsAWordWhollyOrNot) {
  const WordPiece wordpiece = Make({"[UNK]", "a", "##b"});
  EXPECT_THAT(wordpiece.Cut("abbc"), ElementsAre(0));
  EXPECT_THAT(wordpiece.Cut("b"), ElementsAre(0));
  EXPECT_THAT(wordpiece.Cut("ba"), ElementsAre(0));
  EXPECT_THAT(wordpiece.Cut("aa"), ElementsAre(0));
}

TEST(WordPiece, CountsCharactersNotBytes) {
  const WordPiece wordpiece = Make({"[UNK]", "\u00e9", "##\u00e9"}, {.longest_word = 3});
  EXPECT_THAT(wordpiece.Cut("\u00e9\u00e9\u00e9"), ElementsAre(1, 2, 2));
  EXPECT_THAT(wordpiece.Cut("\u00e9\u00e9\u00e9\u00e9"), ElementsAre(0));
}

TEST(WordPiece, CutsBetweenCharacters) {
  const WordPiece wordpiece = Make({"[UNK]", "\u4e2d", "##\u6587", "##\U0001F600"});
  EXPECT_THAT(wordpiece.Cut("\u4e2d\u6587\U0001F600"), ElementsAre(1, 2, 3));
  EXPECT_THAT(wordpiece.Cut("\u4e2d\u6588"), ElementsAre(0));
}

TEST(WordPiece, HasAnotherPrefixAndUnknownToken) {
  const WordPiece wordpiece =
      Make({"a", "@b", "<unk>", "##c"}, {.unknown = "<unk>", .prefix = "@"});
  EXPECT_THAT(wordpiece.Cut("ab"), ElementsAre(0, 1));
  EXPECT_THAT(wordpiece.Cut("ac"), ElementsAre(2));
  const WordPiece plain = Make({"a", "b", "[UNK]"}, {.prefix = ""});
  EXPECT_THAT(plain.Cut("aba"), ElementsAre(0, 1, 0));
}

TEST(WordPiece, ThePrefixAloneIsNoPiece) {
  const WordPiece wordpiece = Make({"[UNK]", "a", "##"});
  EXPECT_THAT(wordpiece.Cut("ab"), ElementsAre(0));
  EXPECT_THAT(wordpiece.Cut("##"), ElementsAre(2));
}

TEST(WordPiece, FindsTokens) {
  const WordPiece wordpiece = Make({"[UNK]", "a", "##b"});
  EXPECT_EQ(wordpiece.IdOf("##b"), 2);
  EXPECT_EQ(wordpiece.IdOf("b"), std::nullopt);
  EXPECT_THAT(wordpiece.tokens(), ElementsAre("[UNK]", "a", "##b"));
  EXPECT_EQ(wordpiece.longest_word(), 100u);
}

TEST(WordPiece, NeedsItsUnknownToken) {
  EXPECT_THAT(WordPiece::Create({"a"}, {}),
              test::KindIs(ErrorKind::kInvalidArgument,
                           "has no \"[UNK]\", which stands for unknown words"));
}

}  // namespace
}  // namespace mp::model
