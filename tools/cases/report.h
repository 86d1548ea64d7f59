// Counts the cases in the report (test.xml) that a test left behind.
//
// Understands the two kinds there are: GoogleTest's own, and the one that Bazel writes for a test
// that left none, which has a single case named after the target.
#ifndef MP_TOOLS_CASES_REPORT_H_
#define MP_TOOLS_CASES_REPORT_H_

#include <string_view>

namespace mp::cases {

struct Report {
  int passed = 0;
  int failed = 0;               // with a failure or an error, skipped, or disabled
  bool written_by_test = true;  // false: Bazel wrote it; true also if there is no case at all
};

Report ReadReport(std::string_view xml);

}  // namespace mp::cases

#endif  // MP_TOOLS_CASES_REPORT_H_
