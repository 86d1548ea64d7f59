// Checks a checkout against the rules and prints what it finds:
//
//   bazel run //tools/tidy -- ROOT
//
// Exits with 0 when it found nothing, with 1 when it did, with 2 on wrong use.

#include <cstdio>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: tidy ROOT\n", stderr);
    return 2;
  }
  const mp::tidy::Tree tree = mp::tidy::ReadTree(argv[1]);
  int count = 0;
  for (const mp::tidy::Rule& rule : mp::tidy::kRules) {
    for (const mp::tidy::Finding& finding : rule.check(tree)) {
      std::puts(Describe(rule, finding).c_str());
      ++count;
    }
  }
  return count == 0 ? 0 : 1;
}
