// Holds the checkout that this test was built from against the rules, one case a rule.

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"

namespace mp::tidy {

// For GoogleTest, which prints the parameter of a case that fails.
void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

namespace {

// The tree is no input of this target: it is found through the link to a file at its top.
const Tree& Checkout() {
  static const Tree* const tree =
      new Tree(ReadTree(std::filesystem::canonical("WORKSPACE").parent_path().string()));
  return *tree;
}

class TreeTest : public testing::TestWithParam<Rule> {};

TEST_P(TreeTest, FollowsTheRule) {
  ASSERT_FALSE(Checkout().empty());
  for (const Finding& finding : GetParam().check(Checkout())) {
    ADD_FAILURE() << Describe(GetParam(), finding);
  }
}

INSTANTIATE_TEST_SUITE_P(Tidy, TreeTest, testing::ValuesIn(kRules), [](const auto& rule) {
  std::string name = rule.param.name;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace mp::tidy
