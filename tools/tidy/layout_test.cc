// Proves each rule about where things lie on a tree that keeps it and one that breaks it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"
#include "tools/tidy/testing.h"

namespace mp::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(TopTest, AllowsTheFixedNamesAndHiddenOnes) {
  EXPECT_THAT(CheckTop({{".bazelrc", {}}, {"WORKSPACE", {}}, {"mp/a.h", {}}, {"tools/mp", {}}}),
              IsEmpty());
}

TEST(TopTest, RefusesAnythingElseOnce) {
  EXPECT_THAT(CheckTop({{"docs/a.md", {}}, {"docs/b.md", {}}}), SizeIs(1));
  EXPECT_THAT(FindingsIn(CheckTop, {"notes.txt", {}}),
              ElementsAre("1: notes.txt does not belong at the top of the tree"));
}

const File kDeclaring = {"mp/a/b.h", {"// Declares.", "int F();"}};
const File kCoded = {"mp/a/b.h", {"// Computes.", "inline int F() { return 1; }"}};
const File kSource = {"mp/a/b.cc", {}};

TEST(TestsTest, WantsATestWhereThereIsCode) {
  EXPECT_THAT(CheckTests({kDeclaring}), IsEmpty());
  EXPECT_THAT(CheckTests({kDeclaring, kSource}), SizeIs(1));
  EXPECT_THAT(CheckTests({kCoded}), SizeIs(1));
}

TEST(TestsTest, TakesOneTestOrSeveral) {
  EXPECT_THAT(CheckTests({kCoded, {"tests/a/b_test.cc", {}}}), IsEmpty());
  EXPECT_THAT(CheckTests({kCoded, {"tests/a/b_order_test.cc", {}}}), IsEmpty());
  EXPECT_THAT(CheckTests({kCoded, {"tests/a/bc_test.cc", {}}}), SizeIs(1));
  EXPECT_THAT(CheckTests({kCoded, {"tests/b_test.cc", {}}}), SizeIs(1));
}

TEST(TestsTest, KnowsWhatASuiteCoversAsLongAsItExists) {
  const File covered = {"mp/stream.h", {"return 1;"}};
  EXPECT_THAT(CheckTests({covered, {"tests/contract/streams.cc", {}}}), IsEmpty());
  EXPECT_THAT(CheckTests({covered}), SizeIs(1));
}

TEST(GlobsTest, RefusesThemOutsideThirdParty) {
  EXPECT_THAT(FindingsIn(CheckGlobs, {"mp/BUILD.bazel", {"", "srcs = glob([\"*.cc\"]),"}}),
              ElementsAre("2: glob(): list the files"));
  EXPECT_THAT(FindingsIn(CheckGlobs, {"mp/BUILD.bazel", {"# no glob() here"}}), IsEmpty());
  EXPECT_THAT(FindingsIn(CheckGlobs, {"third_party/a/BUILD.bazel", {"glob([])"}}), IsEmpty());
}

}  // namespace
}  // namespace mp::tidy
