#include "mp/cuda/gather.h"

#include <cstdint>

namespace mp::cuda {
namespace {

size_t Size(int64_t value) { return static_cast<size_t>(value); }

bool InOwnSlot(const Push& push) {
  if (push.from.data != push.to.data) return false;
  const bool same_rows = push.height == 1 || push.from.pitch == push.to.pitch;
  const bool same_blocks =
      push.depth == 1 || push.from.pitch * push.from.rows == push.to.pitch * push.to.rows;
  return same_rows && same_blocks;
}

// The copy of `input`, which starts `offset` along dim, into `output`.
Push PlanPush(const GatherLayout& layout, const Part& input, int64_t offset, const Part& output) {
  Push push;
  push.from = {static_cast<std::byte*>(const_cast<void*>(input.input)), Size(input.input_pitch), 0};
  push.to = {static_cast<std::byte*>(output.output), Size(output.output_pitch), 0};
  if (layout.joins_columns) {
    push.width = Size(layout.row_bytes * input.input_extent);
    push.height = Size(layout.outer);
    push.depth = 1;
    push.from.rows = push.to.rows = push.height;
    push.to.data += layout.row_bytes * offset;
  } else {
    push.width = Size(layout.row_bytes);
    push.height = Size(layout.run * input.input_extent);
    push.depth = Size(layout.outer);
    push.from.rows = push.height;
    push.to.rows = Size(layout.run * output.output_extent);
    push.to.data += layout.run * offset * output.output_pitch;
  }
  return push;
}

}  // namespace

void PlanGather(const Descriptor& descriptor, absl::Span<const Part> parts,
                std::vector<Push>& pushes) {
  const GatherLayout layout = LayoutOf(descriptor);
  const int n = static_cast<int>(parts.size());
  int64_t offset = 0;
  for (int source = 0; source < n; ++source) {
    const Part& input = parts[Size(source)];
    for (int step = 0; step < n; ++step) {
      // Each source starts with another target, so that not all of them write to one at a time.
      const int target = (source + step) % n;
      if (descriptor.kind == OpKind::kGather && target != descriptor.root) continue;
      if (descriptor.shared_output && target != 0) continue;
      Push push = PlanPush(layout, input, offset, parts[Size(target)]);
      push.source = source;
      push.target = target;
      const bool empty = push.width == 0 || push.height == 0 || push.depth == 0;
      if (!empty && !InOwnSlot(push)) pushes.push_back(push);
    }
    offset += input.input_extent;
  }
}

}  // namespace mp::cuda
