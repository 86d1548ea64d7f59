#include "mp/command/dim_rules.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "mp/base/status.h"

namespace mp::command {

absl::StatusOr<DimRules> DimRules::Parse(const std::vector<std::string>& values) {
  DimRules rules;
  bool has_default = false;
  for (const std::string& text : values) {
    const size_t colon = text.rfind(':');
    const bool has_pattern = colon != std::string::npos;
    const std::string value = has_pattern ? text.substr(colon + 1) : text;
    DimRule rule{.pattern = has_pattern ? text.substr(0, colon) : "*",
                 .flag = absl::StrCat("--dim=", text)};
    int dim = 0;
    if (absl::SimpleAtoi(value, &dim)) {
      rule.dim = dim;
    } else if (value != "same") {
      return InvalidArgument(rule.flag, " is none of N, same, PATTERN:N and PATTERN:same");
    }
    if (rule.pattern.empty()) return InvalidArgument(rule.flag, " has an empty pattern");
    if (has_pattern) {
      rules.patterns_.push_back(std::move(rule));
      continue;
    }
    if (has_default) {
      return InvalidArgument(rules.default_.flag, " and ", rule.flag,
                             " contradict each other; only one may be without a pattern");
    }
    has_default = true;
    rules.default_ = std::move(rule);
  }
  return rules;
}

const DimRule& DimRules::For(absl::string_view name) const {
  for (const DimRule& rule : patterns_) {
    if (GlobMatches(rule.pattern, name)) return rule;
  }
  return default_;
}

bool GlobMatches(absl::string_view pattern, absl::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = absl::string_view::npos;  // the last one seen
  size_t resume = 0;                      // where the text behind it is tried next
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace mp::command
