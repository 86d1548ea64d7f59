// Proves that files are found and that code is told from comments and literals.

#include "tools/tidy/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mp::tidy {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Code(std::vector<std::string> lines) {
  return CodeOf({"mp/a.cc", std::move(lines)});
}

TEST(SourceTest, ReadsTheTextFilesOfATree) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "tree";
  for (const char* path : {"b.h", "a/c.cc", ".git/x", ".ci/run", "data.bin"}) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << "one\n\ntwo";
  }
  std::ofstream(root / "data.bin", std::ios::binary).write("a\0b", 3);
  std::filesystem::create_directory_symlink(root / "a", root / "link");

  std::vector<std::string> paths;
  for (const File& file : ReadTree(root.string())) {
    paths.push_back(file.path);
    EXPECT_THAT(file.lines, ElementsAre("one", "", "two"));
  }
  EXPECT_THAT(paths, ElementsAre(".ci/run", "a/c.cc", "b.h"));
}

TEST(SourceTest, BlanksComments) {
  EXPECT_THAT(Code({"a // b", "c /* d */ e", "/* f", "g", "h */ i"}),
              ElementsAre("a     ", "c         e", "    ", " ", "     i"));
}

TEST(SourceTest, BlanksLiterals) {
  EXPECT_THAT(Code({R"(f("a\"b", 'c', '"');)", "1'000 + 'a'"}),
              ElementsAre("f(      ,    ,    );", "1'000 +    "));
  EXPECT_THAT(Code({R"(s = "//"; t)"}), ElementsAre("s =     ; t"));
}

TEST(SourceTest, BlanksRawLiteralsOfSeveralLines) {
  EXPECT_THAT(Code({"f(R\"x(a", "\" )\" b", ")x\", c)"}),
              ElementsAre("f(     ", "      ", "   , c)"));
}

TEST(SourceTest, FindsIncludes) {
  const std::vector<Include> includes = IncludesOf(
      {"mp/a.cc", {"#include <vector>", "// #include <list>", "#include \"mp/b.h\"  // for b"}});
  ASSERT_EQ(includes.size(), 2u);
  EXPECT_EQ(includes[0].path, "vector");
  EXPECT_EQ(includes[1].path, "mp/b.h");
  EXPECT_EQ(includes[1].line, 3);
}

TEST(SourceTest, KnowsWhatAFileIs) {
  EXPECT_TRUE(IsCpp("a.cc") && IsCpp("a.cu") && IsCpp("a.h") && !IsCpp("a.md"));
  EXPECT_TRUE(IsHeader("a.h") && IsHeader("a.cuh") && !IsHeader("a.cc"));
  EXPECT_TRUE(IsInline("a/b-inl.h") && !IsInline("a/b.h"));
  EXPECT_TRUE(IsBuild("BUILD.bazel") && IsBuild("a/BUILD") && !IsBuild("a/REBUILD"));
  EXPECT_TRUE(IsScript({"a.sh", {}}));
  EXPECT_TRUE(IsScript({"tools/mp", {"#!/usr/bin/env bash"}}));
  EXPECT_FALSE(IsScript({"LICENSE", {"Free"}}));
}

}  // namespace
}  // namespace mp::tidy
