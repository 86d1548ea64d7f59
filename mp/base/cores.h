// Where threads that work together stand.  A kernel may put two of them onto one core and leave
// another one idle, above all on a virtual machine, whose idle cores look as if others had them.
#ifndef MP_BASE_CORES_H_
#define MP_BASE_CORES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace mp {

// Where a thread on core `mine` had better go: the one of `allowed` with the fewest of `others`,
// the cores of the threads that it works with.  Nothing where it stands as well as it could.
std::optional<uint32_t> QuieterCore(uint32_t mine, absl::Span<const uint32_t> others,
                                    absl::Span<const uint32_t> allowed);

// The cores that the calling thread may run on, in order.  Empty where the system does not tell.
std::vector<uint32_t> AllowedCores();

// Moves the calling thread to one of these.  It stays as free to go elsewhere as it was; what
// another thread sets as its affinity meanwhile is lost.  Takes tens of microseconds.
void MoveToCore(uint32_t core);

}  // namespace mp

#endif  // MP_BASE_CORES_H_
