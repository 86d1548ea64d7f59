#include "mp/base/cores.h"

#include <sched.h>

#include <algorithm>

namespace mp {

std::optional<uint32_t> QuieterCore(uint32_t mine, absl::Span<const uint32_t> others,
                                    absl::Span<const uint32_t> allowed) {
  const auto here = [&](uint32_t core) { return std::count(others.begin(), others.end(), core); };
  const auto quietest = std::min_element(allowed.begin(), allowed.end(),
                                         [&](uint32_t a, uint32_t b) { return here(a) < here(b); });
  if (quietest == allowed.end() || here(*quietest) >= here(mine)) return std::nullopt;
  return *quietest;
}

std::vector<uint32_t> AllowedCores() {
  std::vector<uint32_t> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void MoveToCore(uint32_t core) {
  cpu_set_t all, one;
  if (core >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) != 0) return;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof all, &all);
}

}  // namespace mp
