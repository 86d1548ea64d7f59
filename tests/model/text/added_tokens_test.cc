// The longest token at a place is found, and at no other place.

#include "mp/model/text/added_tokens.h"

#include "gtest/gtest.h"

namespace mp::model {
namespace {

int32_t IdAt(const AddedTokens& tokens, absl::string_view text) {
  const AddedToken* token = tokens.At(text);
  return token == nullptr ? -1 : token->id;
}

TEST(AddedTokens, TakesTheLongest) {
  const AddedTokens tokens({{"ab", 1}, {"abcd", 2}, {"abc", 3}, {"\u00e9", 4}});
  EXPECT_EQ(IdAt(tokens, "abcde"), 2);
  EXPECT_EQ(IdAt(tokens, "abcx"), 3);
  EXPECT_EQ(IdAt(tokens, "ab"), 1);
  EXPECT_EQ(IdAt(tokens, "\u00e9"), 4);
  EXPECT_EQ(tokens.tokens().size(), 4u);
}

TEST(AddedTokens, TakesNothingElse) {
  const AddedTokens tokens({{"ab", 1}});
  EXPECT_EQ(IdAt(tokens, ""), -1);
  EXPECT_EQ(IdAt(tokens, "a"), -1);
  EXPECT_EQ(IdAt(tokens, "ac"), -1);
  EXPECT_EQ(IdAt(tokens, "AB"), -1);
  EXPECT_EQ(IdAt(tokens, "xab"), -1);
  EXPECT_EQ(IdAt(AddedTokens(), "ab"), -1);
}

}  // namespace
}  // namespace mp::model
