// The bar is drawn on a terminal, goes away with the end, and appears nowhere else.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/checkpoint.h"
#include "tests/command/harness.h"

namespace mp::command {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

using ProgressTest = CommandTest;

TEST_F(ProgressTest, IsShownOnATerminalOnly) {
  std::vector<Tensor> tensors;  // more than a rank may be ahead
  for (int i = 0; i < 600; ++i) tensors.push_back({absl::StrCat("t", i), "U8", {1}, "x"});
  folder().Write("a.safetensors", FileOf(tensors));
  folder().Write("b.safetensors", FileOf(tensors));
  const Arguments arguments = {"gather", "--out=full.safetensors", "--force", "a.safetensors",
                               "b.safetensors"};
  const Result shown = Run(arguments, {.terminal = true});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.err, HasSubstr("\rmp gather [...................."));
  EXPECT_THAT(shown.err, testing::EndsWith("\r\x1b[K"));
  EXPECT_THAT(shown.out, MatchesRegex("full.safetensors: 600 tensors, 1200 bytes.*\n"));
  Succeeds(arguments);
  Arguments quiet = arguments;
  quiet.push_back("--quiet");
  EXPECT_EQ(Run(quiet, {.terminal = true}).err, "");
}

}  // namespace
}  // namespace mp::command
