#include "mp/model/text/json_nesting.h"

#include <cstddef>

namespace mp::model {

bool NestsTooDeeply(absl::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;  // whatever it is, it ends nothing
    if (in_string) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepestJson) return true;
  }
  return false;
}

}  // namespace mp::model
