#include "mp/model/parallel.h"

#include <omp.h>

#include <algorithm>

#include "mp/model/split.h"

namespace mp::model {

ScopedThreads::ScopedThreads(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
}

ScopedThreads::~ScopedThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

void ParallelFor(int threads, int64_t count,
                 const std::function<void(int64_t begin, int64_t end, int thread)>& body) {
  const int runs = static_cast<int>(std::min<int64_t>(threads, count));
  if (runs <= 1) {
    if (count > 0) body(0, count, 0);
    return;
  }
#pragma omp parallel for num_threads(runs) schedule(static, 1)
  for (int run = 0; run < runs; ++run) {
    const Slice slice = SliceOf(count, runs, run);
    body(slice.begin, slice.begin + slice.size, run);
  }
}

}  // namespace mp::model
