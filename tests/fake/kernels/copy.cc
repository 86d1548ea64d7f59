#include "mp/cuda/kernels/copy.h"

#include <utility>
#include <vector>

#include "mp/cuda/kernels/copy-inl.h"
#include "tests/fake/kernels/launch.h"

namespace mp::cuda {
namespace {

template <typename Byte>
fake::Range RangeOf(const char* name, const StridedCopy::Side<Byte>& side,
                    const StridedCopy& copy) {
  const int64_t last_row = (copy.depth - 1) * side.block_pitch + (copy.height - 1) * side.row_pitch;
  return {name, side.data, static_cast<size_t>(last_row + copy.width)};
}

std::vector<fake::Range> RangesOf(const CopyBody& body) {
  std::vector<fake::Range> ranges;
  for (int i = 0; i < body.count; ++i) {
    const StridedCopy& copy = body.pieces[i].copy;
    ranges.push_back(RangeOf("source of a copy", copy.from, copy));
    ranges.push_back(RangeOf("target of a copy", copy.to, copy));
  }
  return ranges;
}

}  // namespace

cudaError_t LaunchCopies(const StridedCopy* copies, int count, cudaStream_t stream,
                         int most_blocks) {
  return LaunchCopiesBy(copies, count, most_blocks,
                        fake::LaunchOn<decltype(&RangesOf)>{stream, RangesOf});
}

cudaError_t LoadCopies() { return fake::LoadOnly{}(CopyBody{}, 1, kCopyThreads); }

}  // namespace mp::cuda
