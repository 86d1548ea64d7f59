// Patterns match whole names, the first that matches decides, and the flag without one is for the
// rest.

#include "mp/command/dim_rules.h"

#include "gtest/gtest.h"
#include "mp/base/status.h"

namespace mp::command {
namespace {

TEST(GlobMatches, WholeNames) {
  EXPECT_TRUE(GlobMatches("", ""));
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("***", "abc"));
  EXPECT_TRUE(GlobMatches("a.b", "a.b"));
  EXPECT_TRUE(GlobMatches("a?c", "abc"));
  EXPECT_TRUE(GlobMatches("*.weight", "layer.0.weight"));
  EXPECT_TRUE(GlobMatches("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(GlobMatches("*ab", "aab"));
  EXPECT_TRUE(GlobMatches("layer.*.o_proj.*", "layer.11.o_proj.weight"));
  EXPECT_FALSE(GlobMatches("", "a"));
  EXPECT_FALSE(GlobMatches("?", ""));
  EXPECT_FALSE(GlobMatches("a.b", "a.bc"));
  EXPECT_FALSE(GlobMatches("a?c", "ac"));
  EXPECT_FALSE(GlobMatches("*.weight", "weight"));
  EXPECT_FALSE(GlobMatches("a*b*c", "acb"));
}

TEST(GlobMatches, ManyStarsAreNotSlow) {
  EXPECT_FALSE(GlobMatches("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(20000, 'a')));
}

TEST(DimRules, FirstMatchDecides) {
  const auto rules = DimRules::Parse({"*.a:0", "*:1", "*.b:2", "3"});
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->For("x.a").dim, 0);
  EXPECT_EQ(rules->For("x.b").dim, 1);
  EXPECT_EQ(rules->For("x.b").flag, "--dim=*:1");
  EXPECT_EQ(rules->patterns().size(), 3);
}

TEST(DimRules, Defaults) {
  EXPECT_EQ(DimRules::Parse({})->For("x").dim, -1);
  EXPECT_EQ(DimRules::Parse({"2"})->For("x").dim, 2);
  EXPECT_EQ(DimRules::Parse({"same"})->For("x").dim, std::nullopt);
  EXPECT_EQ(DimRules::Parse({"y:0"})->For("x").dim, -1);
  EXPECT_EQ(DimRules::Parse({"a:b:-2"})->For("a:b").dim, -2);
  EXPECT_EQ(DimRules::Parse({"a:same"})->For("a").dim, std::nullopt);
}

TEST(DimRules, Refusals) {
  for (const char* flag : {"", "x", "1x", "x:", ":0", "x:1.0", "x:Same", "99999999999", ":"}) {
    EXPECT_EQ(KindOf(DimRules::Parse({flag}).status()), ErrorKind::kInvalidArgument) << flag;
  }
  EXPECT_FALSE(DimRules::Parse({"0", "x:1", "0"}).ok());
}

}  // namespace
}  // namespace mp::command
