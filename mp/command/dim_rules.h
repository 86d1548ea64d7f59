// Which dimension each tensor is joined along: the --dim flags of `mp gather`.
//
//   --dim=0 --dim='*.o_proj.weight:1' --dim='*norm*:same'
//
// The first pattern that matches a tensor's whole name decides; `*` stands for any text, `?` for
// any one byte.  The flag without a pattern is for all other tensors; without it that is -1.
#ifndef MP_COMMAND_DIM_RULES_H_
#define MP_COMMAND_DIM_RULES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mp::command {

struct DimRule {
  std::string pattern;
  std::optional<int> dim;  // none: the tensor is the same on every rank
  std::string flag;        // as it was given, for messages
};

class DimRules {
 public:
  // InvalidArgument: a flag that is none of N, same, PATTERN:N, PATTERN:same; two without pattern.
  static absl::StatusOr<DimRules> Parse(const std::vector<std::string>& values);

  const DimRule& For(absl::string_view name) const;
  // Without the one that has no pattern.
  const std::vector<DimRule>& patterns() const { return patterns_; }

 private:
  std::vector<DimRule> patterns_;
  DimRule default_{.pattern = "*", .dim = -1, .flag = "--dim=-1"};
};

bool GlobMatches(absl::string_view pattern, absl::string_view text);

}  // namespace mp::command

#endif  // MP_COMMAND_DIM_RULES_H_
