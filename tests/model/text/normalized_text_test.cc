// What each of the four settings does, alone and in their order; and that no more is read and kept
// than is needed.

#include "mp/model/text/normalized_text.h"

#include <string>

#include "gtest/gtest.h"
#include "mp/model/text/utf8.h"

namespace mp::model {
namespace {

constexpr Normalization kNothing = {false, false, false, false};

std::string Normalized(absl::string_view text, const Normalization& how,
                       const AddedTokens& added = AddedTokens(), size_t longest_word = 100) {
  NormalizedText normalized(text, how, added, longest_word);
  std::string result;
  for (; normalized.front().has_value(); normalized.Pop()) result += Utf8Of(*normalized.front());
  return result;
}

TEST(NormalizedText, DoesNothingUnasked) {
  const std::string text("A\0 \t\u00c9\u4e2d\u200b\ufffde\u0301\u0323", 20);
  EXPECT_EQ(Normalized(text, kNothing), text);
  EXPECT_EQ(Normalized("", {}), "");
  EXPECT_EQ(Normalized("a\xff", kNothing), "a\ufffd");
}

TEST(NormalizedText, Cleans) {
  Normalization how = kNothing;
  how.clean_text = true;
  EXPECT_EQ(Normalized(absl::string_view("a\0b", 3), how), "ab");
  EXPECT_EQ(Normalized("\x01\x7f\u0085\u00ad\u200b\ufeff\ue000\ufffd", how), "");
  EXPECT_EQ(Normalized("a\xff\xe4\xb8 b", how), "a b");
  EXPECT_EQ(Normalized("\t\n\r\u00a0\u2028\u3000", how), "      ");
  EXPECT_EQ(Normalized("A\u00e9\u4e2d\u0378", how), "A\u00e9\u4e2d\u0378");
}

TEST(NormalizedText, SeparatesIdeographs) {
  Normalization how = kNothing;
  how.separate_ideographs = true;
  EXPECT_EQ(Normalized("a\u4e2d\u6587b", how), "a \u4e2d  \u6587 b");
  EXPECT_EQ(Normalized("\u3042\uac00", how), "\u3042\uac00");
}

TEST(NormalizedText, StripsAccents) {
  Normalization how = kNothing;
  how.strip_accents = true;
  EXPECT_EQ(Normalized("\u00c9\u0301\u1ec7e\u0323", how), "Eee");
  EXPECT_EQ(Normalized("\u0301", how), "");
  EXPECT_EQ(Normalized("\uac01", how), "\u1100\u1161\u11a8");
  EXPECT_EQ(Normalized("\u304c", how), "\u304b");
  EXPECT_EQ(Normalized("a\u20dd\u0903", how), "a\u20dd\u0903");  // Me and Mc stay
}

// U+302E has class 224, U+1D165 has 216, U+0301 has 230 and is dropped; U+0901 has class 0, is
// dropped too, and keeps the marks on its two sides apart.
TEST(NormalizedText, OrdersTheMarksThatStay) {
  Normalization how = kNothing;
  how.strip_accents = true;
  EXPECT_EQ(Normalized("a\u302e\U0001D165b", how), "a\U0001D165\u302eb");
  EXPECT_EQ(Normalized("\u302e\u0301\U0001D165", how), "\U0001D165\u302e");
  EXPECT_EQ(Normalized("\u302e\u0901\U0001D165", how), "\u302e\U0001D165");
  EXPECT_EQ(Normalized("\u302e \U0001D165", how), "\u302e \U0001D165");
  EXPECT_EQ(Normalized("\u302f\u302e\U0001D165", how), "\U0001D165\u302f\u302e");
  EXPECT_EQ(Normalized("\u302e\U0001D165", kNothing), "\u302e\U0001D165");
}

TEST(NormalizedText, Lowercases) {
  Normalization how = kNothing;
  how.lowercase = true;
  EXPECT_EQ(Normalized("A\u00c9\u0130\u03a3", how), "a\u00e9i\u0307\u03c3");
  how.strip_accents = true;
  EXPECT_EQ(Normalized("\u0130\u00c9", how), "ie");
}

TEST(NormalizedText, KeepsTheOrderOfItsSteps) {
  EXPECT_EQ(Normalized("\uf900", {}), " \u8c48 ");  // apart, then decomposed
  EXPECT_EQ(Normalized("E\u0001\u0301", {}), "e");  // the control no longer parts them
  EXPECT_EQ(Normalized("\u302e\u4e2d\U0001D165", {}), "\u302e \u4e2d \U0001D165");
}

TEST(NormalizedText, EndsAtAnAddedToken) {
  const AddedTokens added({{"[X]", 7}});
  NormalizedText text("E\u0301\u302e[X]b", {}, added, 100);
  EXPECT_EQ(text.front(), U'e');
  text.Pop();
  EXPECT_EQ(text.front(), U'\u302e');
  text.Pop();
  EXPECT_EQ(text.front(), std::nullopt);
  EXPECT_EQ(text.rest(), "[X]b");
  EXPECT_EQ(Normalized("[X]b", {}, added), "");
  EXPECT_EQ(Normalized("\x01[X", {}, added), "[x");
  EXPECT_EQ(Normalized("\xe4[X]", kNothing, added), "\ufffd");
}

TEST(NormalizedText, ReadsNoFurtherThanAsked) {
  const std::string text = "ab" + std::string(1000, 'c');
  const AddedTokens added;
  NormalizedText normalized(text, {}, added, 100);
  normalized.Pop();
  EXPECT_EQ(normalized.front(), U'b');
  EXPECT_EQ(normalized.rest().size(), 1000u);
}

TEST(NormalizedText, KeepsFewMarksOfManyInARow) {
  std::string text = "a";
  for (int i = 0; i < 1000; ++i) text += "\u302e";
  EXPECT_EQ(CountCharacters(Normalized(text, {}, AddedTokens(), 10)), 1u + 11u);
  EXPECT_EQ(CountCharacters(Normalized(text, {}, AddedTokens(), 2000)), 1001u);
}

}  // namespace
}  // namespace mp::model
