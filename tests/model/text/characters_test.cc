// Each question is answered right at the edges of every range, where a wrong category or a block
// that is off by one would show, and counted over all code points.

#include "mp/model/text/characters.h"

#include <algorithm>
#include <initializer_list>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mp::model {
namespace {

using testing::ElementsAre;

using Question = bool (*)(char32_t);

void ExpectAll(Question question, std::initializer_list<char32_t> codes, bool answer) {
  for (const char32_t code : codes) {
    EXPECT_EQ(question(code), answer) << std::hex << static_cast<uint32_t>(code);
  }
}

int Count(Question question) {
  int count = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) count += question(code) ? 1 : 0;
  return count;
}

TEST(IsWhitespace, IsWhiteSpace) {
  ExpectAll(IsWhitespace,
            {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029,
             0x202F, 0x205F, 0x3000},
            true);
  ExpectAll(IsWhitespace,
            {0, 0x08, 0x0E, 0x1C, 0x1F, 'a', 0x84, 0x86, 0x180E, 0x200B, 0x2060, 0xFEFF, 0x10FFFF},
            false);
  EXPECT_EQ(Count(IsWhitespace), 25);
}

TEST(IsControl, IsWhatCleaningDrops) {
  ExpectAll(IsControl,
            {0,    0x08,   0x0B,   0x0C,   0x0E,   0x1F,   0x7F,   0x80,    0x85,    0x9F,
             0xAD, 0x200B, 0x200D, 0x202E, 0xFEFF, 0xE000, 0xF8FF, 0xE0001, 0xF0000, 0x10FFFD},
            true);
  ExpectAll(IsControl, {'\t', '\n', '\r', ' ', '~', 0xA0, 0x2028, 0x0378, 0xFFFD, 0xFFFF, 0x10FFFF},
            false);
}

TEST(IsIdeograph, IsInOneOfTheBlocks) {
  ExpectAll(IsIdeograph,
            {0x3400, 0x4DBF, 0x4E00, 0x9FFF, 0xF900, 0xFAFF, 0x20000, 0x2A6DF, 0x2A700, 0x2B73F,
             0x2B740, 0x2B81F, 0x2B920, 0x2CEAF, 0x2F800, 0x2FA1F},
            true);
  ExpectAll(IsIdeograph,
            {0x33FF, 0x4DC0, 0x4DFF, 0xA000, 0xF8FF, 0xFB00, 0x1FFFF, 0x2A6E0, 0x2A6FF, 0x2B820,
             0x2B91F, 0x2CEB0, 0x2F7FF, 0x2FA20, 0x3042, 0x30AB, 0xAC00},
            false);
  EXPECT_EQ(Count(IsIdeograph), 81264);
}

TEST(IsPunctuation, IsPunctuationAndAllSignsOfAscii) {
  ExpectAll(IsPunctuation,
            {'!',    '/',    ':',    '@',    '[',    '`',    '{',    '~',    '$',    '+',    '<',
             '^',    '|',    '_',    0xA1,   0xA7,   0xB7,   0xBF,   0x5BE,  0x2010, 0x2014, 0x2018,
             0x201D, 0x2026, 0x203F, 0x3001, 0x300C, 0x301C, 0xFF01, 0xFF3F, 0x10100},
            true);
  ExpectAll(IsPunctuation,
            {0,    ' ',  '0',  '9',    'A',    'Z',    'a',    'z',    0x7F,   0xA2,   0xA8,
             0xB4, 0xB1, 0xD7, 0x20AC, 0x2192, 0x2212, 0x2603, 0x0301, 0xFF0B, 0x1F600},
            false);
}

TEST(IsNonspacingMark, IsNoOtherMark) {
  ExpectAll(IsNonspacingMark,
            {0x0300, 0x036F, 0x05B0, 0x064E, 0x093C, 0x0E34, 0x3099, 0xFE0F, 0x1D167}, true);
  ExpectAll(IsNonspacingMark, {'a', 0x0903, 0x093E, 0x20DD, 0x302E, 0x1D165, 0xB4}, false);
}

TEST(CombiningClass, IsUnicodes) {
  EXPECT_EQ(CombiningClass('a'), 0);
  EXPECT_EQ(CombiningClass(0x0901), 0);
  EXPECT_EQ(CombiningClass(0x0301), 230);
  EXPECT_EQ(CombiningClass(0x0323), 220);
  EXPECT_EQ(CombiningClass(0x302E), 224);
  EXPECT_EQ(CombiningClass(0x1D165), 216);
}

TEST(Decomposed, IsCanonicalAndFull) {
  EXPECT_THAT(Decomposed('a'), ElementsAre('a'));
  EXPECT_THAT(Decomposed(0xE9), ElementsAre('e', 0x301));
  EXPECT_THAT(Decomposed(0x1EC7), ElementsAre('e', 0x323, 0x302));
  EXPECT_THAT(Decomposed(0x1F82), ElementsAre(0x3B1, 0x313, 0x300, 0x345));
  EXPECT_THAT(Decomposed(0x212B), ElementsAre('A', 0x30A));
  EXPECT_THAT(Decomposed(0xAC00), ElementsAre(0x1100, 0x1161));
  EXPECT_THAT(Decomposed(0xD7A3), ElementsAre(0x1112, 0x1175, 0x11C2));
  EXPECT_THAT(Decomposed(0xF900), ElementsAre(0x8C48));
  EXPECT_THAT(Decomposed(0xFB01), ElementsAre(0xFB01));  // a ligature is not canonical
  EXPECT_THAT(Decomposed(0xFF21), ElementsAre(0xFF21));
  size_t longest = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code == 0xD800) code = 0xE000;
    longest = std::max(longest, Decomposed(code).size());
  }
  EXPECT_EQ(longest, 4u);
}

TEST(Lowercased, IsPerCharacter) {
  EXPECT_THAT(Lowercased('A'), ElementsAre('a'));
  EXPECT_THAT(Lowercased('a'), ElementsAre('a'));
  EXPECT_THAT(Lowercased(0x130), ElementsAre('i', 0x307));
  EXPECT_THAT(Lowercased(0x3A3), ElementsAre(0x3C3));  // wherever it stands
  EXPECT_THAT(Lowercased(0x1E9E), ElementsAre(0xDF));
  EXPECT_THAT(Lowercased(0xDF), ElementsAre(0xDF));
  EXPECT_THAT(Lowercased(0x1C5), ElementsAre(0x1C6));
  EXPECT_THAT(Lowercased(0x10400), ElementsAre(0x10428));
  EXPECT_THAT(Lowercased(0x4E2D), ElementsAre(0x4E2D));
}

}  // namespace
}  // namespace mp::model
