#include "mp/base/process.h"

#include "mp/base/status.h"

namespace mp {

absl::Status Process::Refuse() {
  return UsageError(
      "this process was forked from the one that made this object, and has none of its threads: ",
      "a child makes a Backend of its own, or calls exec");
}

}  // namespace mp
