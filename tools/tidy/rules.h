// The rules of tidy: what holds of the tree and neither the compiler nor the formatter sees.
//
//   for (const Rule& rule : kRules) {
//     for (const Finding& finding : rule.check(tree)) std::puts(Describe(rule, finding).c_str());
//   }
//
// Each rule has its reason, and its tables, where it is defined. A rule looks at nothing but the
// tree that it is given, so its test shows it a made-up one.
#ifndef MP_TOOLS_TIDY_RULES_H_
#define MP_TOOLS_TIDY_RULES_H_

#include <string>
#include <vector>

#include "tools/tidy/source.h"

namespace mp::tidy {

struct Finding {
  std::string path;
  int line;          // counted from 1; 1 too where the whole file is meant
  std::string text;  // what is wrong, and why that matters or what to do
};

using Findings = std::vector<Finding>;

// includes.cc
Findings CheckLayers(const Tree& tree);       // who includes whom below mp/
Findings CheckCudaHeaders(const Tree& tree);  // who includes CUDA and NCCL
Findings CheckThreads(const Tree& tree);      // who uses threads, locks, atomics and clocks

// shape.cc
Findings CheckSizes(const Tree& tree);          // lines of a file, columns of a line
Findings CheckGuards(const Tree& tree);         // what header guards are called
Findings CheckIntroductions(const Tree& tree);  // a header begins with what it is

// words.cc
Findings CheckWords(const Tree& tree);  // what a file must not say
Findings CheckNames(const Tree& tree);  // what files and types must not be called

// layout.cc
Findings CheckTop(const Tree& tree);    // what may lie at the top of the tree
Findings CheckTests(const Tree& tree);  // each header has its test
Findings CheckGlobs(const Tree& tree);  // BUILD files list their sources

struct Rule {
  const char* name;
  Findings (*check)(const Tree& tree);
};

inline constexpr Rule kRules[] = {
    {"layers", CheckLayers},   {"cuda-headers", CheckCudaHeaders},
    {"threads", CheckThreads}, {"sizes", CheckSizes},
    {"guards", CheckGuards},   {"introductions", CheckIntroductions},
    {"words", CheckWords},     {"names", CheckNames},
    {"top", CheckTop},         {"tests", CheckTests},
    {"globs", CheckGlobs},
};

// "mp/base/sync.h:12: threads: ..."
inline std::string Describe(const Rule& rule, const Finding& finding) {
  return finding.path + ":" + std::to_string(finding.line) + ": " + rule.name + ": " + finding.text;
}

}  // namespace mp::tidy

#endif  // MP_TOOLS_TIDY_RULES_H_
