#include "mp/cuda/kernels/fold.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "mp/cuda/kernels/fold-inl.h"
#include "tests/fake/kernels/launch.h"

namespace mp::cuda {
namespace {

std::vector<fake::Range> RangesOf(const Fold& fold) {
  const auto offset = static_cast<size_t>(fold.begin * SizeOf(fold.dtype));
  const auto bytes = static_cast<size_t>((fold.end - fold.begin) * SizeOf(fold.dtype));
  std::vector<fake::Range> ranges;
  for (int r = 0; r < fold.input_count; ++r) {
    ranges.push_back({absl::StrCat("input ", r, " of a fold"),
                      static_cast<const char*>(fold.inputs[r]) + offset, bytes});
  }
  for (int k = 0; k < fold.output_count; ++k) {
    ranges.push_back({absl::StrCat("output ", k, " of a fold"),
                      static_cast<const char*>(fold.outputs[k]) + offset, bytes});
  }
  return ranges;
}

}  // namespace

cudaError_t LaunchFold(const Fold& fold, cudaStream_t stream) {
  const auto ranges_of = [](const auto& body) { return RangesOf(body.fold); };
  return LaunchFoldBy(fold, fake::LaunchOn<decltype(ranges_of)>{stream, ranges_of});
}

cudaError_t LoadFolds() { return LoadFoldsBy(fake::LoadOnly{}); }

}  // namespace mp::cuda
