#include "tools/cases/report.h"

#include <cstddef>
#include <string_view>

namespace mp::cases {
namespace {

// Cuts the next markup from the front of `xml`: the text between < and >, or nothing at the end.
// What a test has printed lies in CDATA sections, which are passed over whole; elsewhere both
// writers escape < and >.
std::string_view NextTag(std::string_view& xml) {
  constexpr std::string_view kData = "<![CDATA[";
  while (true) {
    const std::size_t begin = xml.find('<');
    if (begin == std::string_view::npos) return {};
    xml.remove_prefix(begin);
    const bool is_data = xml.starts_with(kData);
    const std::string_view close = is_data ? "]]>" : ">";
    const std::size_t end = xml.find(close);
    if (end == std::string_view::npos) return {};
    const std::string_view tag = xml.substr(1, end - 1);
    xml.remove_prefix(end + close.size());
    if (!is_data) return tag;
  }
}

bool IsTag(std::string_view tag, std::string_view name) {
  return tag.starts_with(name) &&
         (tag.size() == name.size() || tag.find_first_of(" \t\r\n/", name.size()) == name.size());
}

}  // namespace

Report ReadReport(std::string_view xml) {
  Report report;
  bool in_case = false;
  bool case_failed = false;
  const auto close_case = [&] {
    if (in_case) ++(case_failed ? report.failed : report.passed);
    in_case = false;
  };
  for (std::string_view tag = NextTag(xml); !tag.empty(); tag = NextTag(xml)) {
    if (IsTag(tag, "testcase")) {
      close_case();
      in_case = true;
      case_failed = tag.find(" status=\"notrun\"") != std::string_view::npos;
      if (tag.find(" classname=") == std::string_view::npos) report.written_by_test = false;
      if (tag.ends_with('/')) close_case();
    } else if (IsTag(tag, "failure") || IsTag(tag, "error") || IsTag(tag, "skipped")) {
      case_failed = true;
    } else if (IsTag(tag, "/testcase")) {
      close_case();
    }
  }
  case_failed = true;  // a case that is still open was cut off
  close_case();
  return report;
}

}  // namespace mp::cases
