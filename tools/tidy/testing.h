// For the tests of the rules: made-up trees, and findings as text.
#ifndef MP_TOOLS_TIDY_TESTING_H_
#define MP_TOOLS_TIDY_TESTING_H_

#include <string>
#include <vector>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"

namespace mp::tidy {

// What a rule says of a tree with one file, as "line: text".
inline std::vector<std::string> FindingsIn(Findings (*check)(const Tree&), const File& file) {
  std::vector<std::string> texts;
  for (const Finding& finding : check({file})) {
    texts.push_back(std::to_string(finding.line) + ": " + finding.text);
  }
  return texts;
}

}  // namespace mp::tidy

#endif  // MP_TOOLS_TIDY_TESTING_H_
