// Proves the rules about words. The words are written in two pieces, so that this file keeps them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"
#include "tools/tidy/testing.h"

namespace mp::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(WordsTest, RefusesThemInAnyFile) {
  for (const std::string& line : std::vector<std::string>{
           "// TO"
           "DO: later",
           "// TO"
           "DO(me): later",
           "FIX"
           "ME",
           "GTEST"
           "_SKIP() << 1;",
           "TEST(A, DIS"
           "ABLED_B) {}",
           "cd /wo"
           "rk/main",
           "\"/ro"
           "ot/.cache\"",
           "see (/fa"
           "rm/a)",
           "deb http://deb.debian"
           ".org/debian",
           "pip -i https://pypi"
           ".org/simple",
           "files.python"
           "hosted.org",
       }) {
    EXPECT_THAT(FindingsIn(CheckWords, {"README.md", {"", line}}),
                ElementsAre(StartsWith("2: says ")))
        << line;
  }
}

TEST(WordsTest, KnowsThemFromOtherWords) {
  for (const char* line : {"mastodon TODOS",
                           "tests/wo"
                           "rk/a_test.cc",
                           "a/ro"
                           "ot/b",
                           "framework/", "CUDA_DISABLED_X", "debianXorg"}) {
    EXPECT_THAT(FindingsIn(CheckWords, {"README.md", {line}}), IsEmpty()) << line;
  }
}

TEST(NamesTest, RefusesEmptyNamesOfFiles) {
  EXPECT_THAT(FindingsIn(CheckNames, {"mp/stream_util.h", {}}),
              ElementsAre("1: \"util\" in the name stream_util.h: say what it is or does"));
  EXPECT_THAT(FindingsIn(CheckNames, {"tests/helpers/a.cc", {}}), SizeIs(1));
  EXPECT_THAT(FindingsIn(CheckNames, {"mp/utility.h", {}}), IsEmpty());
}

TEST(NamesTest, RefusesEmptyNamesOfTypes) {
  for (const char* line : {"class StreamManager {", "struct Handler;", "enum class UtilKind {",
                           "namespace mp::utils {", "using CudaContext = int;"}) {
    EXPECT_THAT(FindingsIn(CheckNames, {"mp/a.h", {line}}), SizeIs(1)) << line;
  }
}

TEST(NamesTest, LeavesUsesAndProseAlone) {
  for (const char* line : {"class Stream {", "cuCtxGetCurrent(&context);", "// class Handler",
                           "struct Utilization {", "int helper = 0;"}) {
    EXPECT_THAT(FindingsIn(CheckNames, {"mp/a.h", {line}}), IsEmpty()) << line;
  }
}

}  // namespace
}  // namespace mp::tidy
