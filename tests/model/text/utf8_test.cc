// Ill-formed bytes are cut into maximal subparts: every string of up to 4 bytes from all that the
// rules tell apart is held against the definition, with utf8proc as the judge of what is valid.

#include "mp/model/text/utf8.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "utf8proc.h"

namespace mp::model {
namespace {

using testing::ElementsAre;

constexpr unsigned char kBytes[] = {0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0,
                                    0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                    0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5};

// The first character of `text` and its size, or a size that is not positive.
utf8proc_ssize_t Judge(const std::string& text, utf8proc_int32_t& code) {
  return utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                          static_cast<utf8proc_ssize_t>(text.size()), &code);
}

// Whether some bytes after `text` make one character of all.
bool BeginsCharacter(const std::string& text, size_t depth = 3) {
  utf8proc_int32_t code = 0;
  if (Judge(text, code) == static_cast<utf8proc_ssize_t>(text.size())) return true;
  if (depth == 0) return false;
  for (const char byte : {'\x80', '\x8F', '\x90', '\x9F', '\xA0', '\xBF'}) {
    if (BeginsCharacter(text + byte, depth - 1)) return true;
  }
  return false;
}

void ExpectByDefinition(const std::string& text) {
  const Character first = FirstCharacter(text);
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t size = Judge(text, code);
  ASSERT_EQ(first.is_valid, size > 0) << testing::PrintToString(text);
  if (size > 0) {
    ASSERT_EQ(first.code, static_cast<char32_t>(code));
    ASSERT_EQ(first.size_bytes, static_cast<size_t>(size));
    return;
  }
  ASSERT_EQ(first.code, kReplacement);
  size_t longest = 1;
  while (longest < text.size() && BeginsCharacter(text.substr(0, longest + 1))) ++longest;
  ASSERT_EQ(first.size_bytes, longest) << testing::PrintToString(text);
}

TEST(FirstCharacter, TakesMaximalSubparts) {
  std::vector<std::string> texts{""};
  for (int size = 1; size <= 4; ++size) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const unsigned char byte : kBytes) longer.push_back(text + static_cast<char>(byte));
    }
    texts = std::move(longer);
    for (const std::string& text : texts) {
      ExpectByDefinition(text);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(FirstCharacter, TakesEveryCodePoint) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code == 0xD800) code = 0xE000;
    const std::string bytes = Utf8Of(code);
    const Character first = FirstCharacter(bytes + "x");
    ASSERT_EQ(first.code, code);
    ASSERT_EQ(first.size_bytes, bytes.size());
    ASSERT_TRUE(first.is_valid);
  }
}

std::vector<char32_t> CodesOf(absl::string_view text) {
  std::vector<char32_t> codes;
  while (!text.empty()) {
    codes.push_back(FirstCharacter(text).code);
    text.remove_prefix(FirstCharacter(text).size_bytes);
  }
  return codes;
}

// Table 3-8 of the Unicode standard, and others like it.
TEST(FirstCharacter, ReplacesAsTheStandardRecommends) {
  const char32_t r = kReplacement;
  EXPECT_THAT(CodesOf("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
              ElementsAre('a', r, r, r, 'b', r, 'c', r, r, 'd'));
  EXPECT_THAT(CodesOf("\xED\xA0\x80"), ElementsAre(r, r, r));
  EXPECT_THAT(CodesOf("\xE4[SEP]"), ElementsAre(r, '[', 'S', 'E', 'P', ']'));
  EXPECT_THAT(CodesOf("\xF0\x9F\x98"), ElementsAre(r));
}

TEST(IsUtf8, TellsReplacementsFromWhatTheyReplace) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("caf\u00e9 \U0001F600"));
  EXPECT_TRUE(IsUtf8("\uFFFD"));
  EXPECT_TRUE(IsUtf8(absl::string_view("\0", 1)));
  EXPECT_FALSE(IsUtf8("\xF0\x9F\x98"));
  EXPECT_FALSE(IsUtf8("good, then \xFF bad"));
  EXPECT_FALSE(IsUtf8("caf\xC3"));
  EXPECT_FALSE(IsUtf8("\xED\xB0\x80"));
}

TEST(CountCharacters, CountsSubparts) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("caf\u00e9\U0001F600"), 5u);
  EXPECT_EQ(CountCharacters("\xF0\x9F\x98\xFF"), 2u);
}

}  // namespace
}  // namespace mp::model
