// Proves each rule about the shape of a file on one that keeps it and one that breaks it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
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

std::vector<std::string> OfLength(const std::string& path, std::size_t lines) {
  return FindingsIn(CheckSizes, {path, std::vector<std::string>(lines, "a")});
}

TEST(SizesTest, LimitsTheLinesOfEachKindOfFile) {
  EXPECT_THAT(OfLength("mp/a.h", 200), IsEmpty());
  EXPECT_THAT(OfLength("mp/a.h", 201),
              ElementsAre("201: 201 lines, more than 200: split it by concept"));
  for (const char* path : {"mp/a.cc", "mp/a.cu", "mp/a-inl.h", "mp/BUILD.bazel"}) {
    EXPECT_THAT(OfLength(path, 500), IsEmpty()) << path;
    EXPECT_THAT(OfLength(path, 501), SizeIs(1)) << path;
  }
  EXPECT_THAT(OfLength("tools/a.sh", 200), IsEmpty());
  EXPECT_THAT(OfLength("tools/a.sh", 201), SizeIs(1));
}

TEST(SizesTest, LeavesProseAlone) {
  EXPECT_THAT(FindingsIn(CheckSizes, {"README.md", {9999, std::string(500, 'a')}}), IsEmpty());
}

TEST(SizesTest, LimitsColumnsCountedInCharacters) {
  EXPECT_THAT(FindingsIn(CheckSizes, {"a.cc", {std::string(100, 'a')}}), IsEmpty());
  EXPECT_THAT(FindingsIn(CheckSizes, {"a.cc", {"", std::string(101, 'a')}}),
              ElementsAre("2: 101 columns, more than 100: break the line"));
  EXPECT_THAT(FindingsIn(CheckSizes, {"a.cc", {std::string(99, 'a') + "\u00e9"}}), IsEmpty());
}

File Header(const std::string& path, const std::string& guard) {
  return {path,
          {"// A header.", "#ifndef " + guard, "#define " + guard, "", "#endif  // " + guard}};
}

TEST(GuardsTest, WantsThePathAsTheName) {
  EXPECT_THAT(FindingsIn(CheckGuards, Header("mp/base/sync.h", "MP_BASE_SYNC_H_")), IsEmpty());
  EXPECT_THAT(FindingsIn(CheckGuards, Header("tests/support/clock.h", "MP_TESTS_SUPPORT_CLOCK_H_")),
              IsEmpty());
  EXPECT_THAT(FindingsIn(CheckGuards, Header("mp/base/sync.h", "SYNC_H")),
              ElementsAre("2: the first directives are not #ifndef and #define MP_BASE_SYNC_H_"));
}

TEST(GuardsTest, WantsAGuardFromTheFirstDirectiveToTheLastLine) {
  EXPECT_THAT(FindingsIn(CheckGuards, {"mp/a.h", {"// A.", "#pragma once"}}), SizeIs(1));
  EXPECT_THAT(FindingsIn(CheckGuards, {"mp/a.h", {}}), SizeIs(1));
  EXPECT_THAT(FindingsIn(CheckGuards, {"mp/a.h", {"#ifndef MP_A_H_"}}), SizeIs(1));
  File open = Header("mp/a.h", "MP_A_H_");
  open.lines.back() = "#endif";
  EXPECT_THAT(FindingsIn(CheckGuards, open),
              ElementsAre("5: the last line is not #endif  // MP_A_H_"));
}

TEST(GuardsTest, LeavesSourcesAlone) {
  EXPECT_THAT(FindingsIn(CheckGuards, {"mp/a.cc", {"int a;"}}), IsEmpty());
  EXPECT_THAT(FindingsIn(CheckGuards, {"mp/a-inl.h", {"#if defined(A)"}}), IsEmpty());
}

TEST(IntroductionsTest, WantsACommentFirst) {
  EXPECT_THAT(FindingsIn(CheckIntroductions, {"mp/a.h", {"// The a of b."}}), IsEmpty());
  EXPECT_THAT(FindingsIn(CheckIntroductions, {"mp/a.h", {"#ifndef MP_A_H_"}}), SizeIs(1));
  EXPECT_THAT(FindingsIn(CheckIntroductions, {"mp/a.cc", {"#include \"mp/a.h\""}}), IsEmpty());
}

}  // namespace
}  // namespace mp::tidy
