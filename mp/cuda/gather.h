// Which rectangles of memory a gather copies.  Pure.
#ifndef MP_CUDA_GATHER_H_
#define MP_CUDA_GATHER_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "mp/operation.h"

namespace mp::cuda {

// `depth` blocks of `height` rows of `width` contiguous bytes.  On either side a row starts one
// pitch behind the last, and a block `rows` pitches behind the last.
struct Push {
  struct Side {
    std::byte* data = nullptr;
    size_t pitch = 0;
    size_t rows = 0;
  };
  int source = 0;  // peers
  int target = 0;
  Side from;
  Side to;
  size_t width = 0;
  size_t height = 0;
  size_t depth = 0;
};

// Appends the copies of one Gather or AllGather; those of one source in a row.  Empty shards, and
// those that lie in their own slot of the output, have none.  A shared output is written once.
void PlanGather(const Descriptor& descriptor, absl::Span<const Part> parts,
                std::vector<Push>& pushes);

}  // namespace mp::cuda

#endif  // MP_CUDA_GATHER_H_
