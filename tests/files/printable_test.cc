// Names from outside can neither break a message's line nor drive the terminal nor fill the screen.

#include "mp/files/printable.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mp::files {
namespace {

TEST(Printable, EscapesControls) {
  EXPECT_EQ(Printable("plain name.npy"), "plain name.npy");
  EXPECT_EQ(Printable("a\nb\tc\r\x1b[0m\x7f"), "a\\nb\\tc\\x0d\\x1b[0m\\x7f");
  EXPECT_EQ(Printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // the 8-bit form of ESC [
  EXPECT_EQ(Printable("gr\xc3\xb6\xc3\x9f"
                      "e"),
            "gr\xc3\xb6\xc3\x9f"
            "e");
  EXPECT_EQ(Printable("\xc2"), "\xc2");
}

TEST(Printable, CutsWhatIsLong) {
  const std::string text = Printable("begin" + std::string(100000, 'x') + "end");
  EXPECT_LT(text.size(), 250);
  EXPECT_THAT(text, testing::StartsWith("begin"));
  EXPECT_THAT(text, testing::EndsWith("end"));
  EXPECT_THAT(text, testing::HasSubstr("x...x"));
}

}  // namespace
}  // namespace mp::files
