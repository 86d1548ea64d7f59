#include "mp/host/carry_out.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "mp/base/check.h"
#include "mp/host/kernels/copy.h"
#include "mp/host/kernels/fold.h"

namespace mp::host {
namespace {

// Ranks whose pointers fit on the stack.
constexpr size_t kFewRanks = 16;
constexpr int64_t kLineBytes = 64;

template <typename T>
using PerRank = absl::InlinedVector<T, kFewRanks>;

// The bounds of piece `piece` of `pieces` of `total`, on multiples of `unit` but for the last.
struct Range {
  int64_t begin, end;
};
Range Slice(int64_t total, int64_t unit, int64_t piece, int64_t pieces) {
  const int64_t units = (total + unit - 1) / unit;
  const auto at = [&](int64_t i) {
    return std::min(total, static_cast<int64_t>(static_cast<__int128>(units) * i / pieces) * unit);
  };
  return {at(piece), at(piece + 1)};
}

// --- reductions --------------------------------------------------------------------------------

void Reduce(const Descriptor& descriptor, absl::Span<const Part> parts, Range elements) {
  PerRank<const void*> inputs;
  PerRank<void*> outputs;
  for (const Part& part : parts) {
    inputs.push_back(part.input);
    if (!descriptor.shared_output || outputs.empty()) outputs.push_back(part.output);
  }
  const bool in_place = inputs[0] == outputs[0];
  FoldOptions options;
  options.scale = descriptor.scale;
  options.streaming = !in_place && static_cast<int64_t>(outputs.size()) *
                                           descriptor.shape.elements() * SizeOf(descriptor.dtype) >
                                       StreamingThresholdBytes();
  const FoldFn fold = FoldFor(descriptor.dtype, descriptor.reduce_op);
  MP_CHECK(fold != nullptr);
  fold(inputs.data(), static_cast<int>(inputs.size()), outputs.data(),
       static_cast<int>(outputs.size()), elements.begin, elements.end - elements.begin, options);
}

// --- gathers -----------------------------------------------------------------------------------

// The shards of a gather as blocks of rows, each block with one place in the result.
struct Blocks {
  int64_t outer;         // blocks of each shard
  int64_t rows;          // rows of a block of this shard
  int64_t row_bytes;     // contiguous bytes of a row
  int64_t target_first;  // the row, or the byte within the row, where the shard's block begins
  int64_t target_rows;   // rows of a block of the result
  bool last;             // the last dimension is joined: target_first is in bytes
};

Blocks BlocksOf(const GatherLayout& layout, int64_t extent, int64_t offset, int64_t total) {
  if (layout.joins_columns) {
    return {layout.outer, 1, layout.row_bytes * extent, layout.row_bytes * offset, 1, true};
  }
  return {layout.outer,        layout.run * extent, layout.row_bytes,
          layout.run * offset, layout.run * total,  false};
}

// Rows [begin, end) of the shard's rows, counted through all blocks, to every output in
// `targets`.  All outputs have the pitch `target_pitch`.
void CopyBlockRows(const Blocks& blocks, const Part& part, absl::Span<void* const> targets,
                   int64_t target_pitch, Range rows, Range columns, bool streaming) {
  const char* source = static_cast<const char*>(part.input) + columns.begin;
  const int64_t width = columns.end - columns.begin;
  PerRank<void*> starts(targets.size());
  while (rows.begin < rows.end) {
    const int64_t block = rows.begin / blocks.rows;
    const int64_t first = rows.begin % blocks.rows;
    // With the last dimension joined all rows are one pitch apart, through all blocks.
    const int64_t count =
        blocks.last ? rows.end - rows.begin : std::min(rows.end - rows.begin, blocks.rows - first);
    const int64_t target_row =
        blocks.last ? block : block * blocks.target_rows + blocks.target_first + first;
    const int64_t target_offset =
        target_row * target_pitch + (blocks.last ? blocks.target_first : 0) + columns.begin;
    for (size_t k = 0; k < targets.size(); ++k) {
      starts[k] = static_cast<char*>(targets[k]) + target_offset;
    }
    const char* from = source + rows.begin * part.input_pitch;
    if (targets.size() == 1) {
      CopyRows(starts[0], target_pitch, from, part.input_pitch, width, count, streaming);
    } else {
      CopyRowsToMany(starts.data(), static_cast<int>(starts.size()), target_pitch, from,
                     part.input_pitch, width, count, streaming);
    }
    rows.begin += count;
  }
}

// Whether the shard lies where the result wants it.
bool InItsSlot(const Blocks& blocks, const Part& part, const void* output, int64_t output_pitch) {
  const int64_t offset = blocks.last ? blocks.target_first : blocks.target_first * output_pitch;
  const bool same_pitch = part.input_pitch == output_pitch || blocks.outer * blocks.rows <= 1;
  const bool same_blocks = blocks.last || blocks.outer <= 1 || blocks.rows == blocks.target_rows;
  return static_cast<const char*>(output) + offset == part.input && same_pitch && same_blocks;
}

bool Receives(const Descriptor& descriptor, int peer) {
  if (descriptor.kind == OpKind::kGather) return peer == descriptor.root;
  return !descriptor.shared_output || peer == 0;
}

void GatherShard(const Descriptor& descriptor, absl::Span<const Part> parts, const Blocks& blocks,
                 const Part& part, bool streaming, int64_t piece, int64_t pieces) {
  const int64_t rows = blocks.outer * blocks.rows;
  if (rows == 0 || blocks.row_bytes == 0) return;
  // Few long rows are cut across, many rows between them.
  const bool cut_rows = rows >= pieces;
  const Range row_range = cut_rows ? Slice(rows, 1, piece, pieces) : Range{0, rows};
  const Range column_range =
      cut_rows ? Range{0, blocks.row_bytes} : Slice(blocks.row_bytes, kLineBytes, piece, pieces);
  if (row_range.begin >= row_range.end || column_range.begin >= column_range.end) return;
  // Outputs of one pitch are written together, each byte being read once.
  PerRank<void*> targets;
  PerRank<bool> taken(parts.size(), false);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (taken[k] || !Receives(descriptor, static_cast<int>(k))) continue;
    targets.clear();
    const int64_t pitch = parts[k].output_pitch;
    for (size_t j = k; j < parts.size(); ++j) {
      if (taken[j] || !Receives(descriptor, static_cast<int>(j))) continue;
      if (parts[j].output_pitch != pitch) continue;
      taken[j] = true;
      if (!InItsSlot(blocks, part, parts[j].output, pitch)) targets.push_back(parts[j].output);
    }
    if (targets.empty()) continue;
    CopyBlockRows(blocks, part, targets, pitch, row_range, column_range, streaming);
  }
}

void Gather(const Descriptor& descriptor, absl::Span<const Part> parts, int64_t piece,
            int64_t pieces) {
  const GatherLayout layout = LayoutOf(descriptor);
  const bool streaming = BytesOf(descriptor, parts) / 2 > StreamingThresholdBytes();
  int64_t total = 0;
  for (const Part& part : parts) total += part.input_extent;
  int64_t offset = 0;
  for (const Part& part : parts) {
    const Blocks blocks = BlocksOf(layout, part.input_extent, offset, total);
    GatherShard(descriptor, parts, blocks, part, streaming, piece, pieces);
    offset += part.input_extent;
  }
}

}  // namespace

int64_t BytesOf(const Descriptor& descriptor, absl::Span<const Part> parts) {
  const auto ranks = static_cast<int64_t>(parts.size());
  switch (descriptor.kind) {
    case OpKind::kAllReduce: {
      const int64_t bytes = descriptor.shape.elements() * SizeOf(descriptor.dtype);
      return bytes * (ranks + (descriptor.shared_output ? 1 : ranks));
    }
    case OpKind::kGather:
    case OpKind::kAllGather: {
      const GatherLayout layout = LayoutOf(descriptor);
      const int64_t per_unit =
          layout.outer * (layout.joins_columns ? 1 : layout.run) * layout.row_bytes;
      const int64_t outputs =
          descriptor.kind == OpKind::kAllGather && !descriptor.shared_output ? ranks : 1;
      int64_t total = 0;
      int64_t offset = 0;
      int64_t all = 0;
      for (const Part& part : parts) all += part.input_extent;
      for (const Part& part : parts) {
        const Blocks blocks = BlocksOf(layout, part.input_extent, offset, all);
        const Part& receiver = parts[static_cast<size_t>(std::max(descriptor.root, 0))];
        const bool moves =
            outputs > 1 || !InItsSlot(blocks, part, receiver.output, receiver.output_pitch);
        if (moves) total += part.input_extent * per_unit;
        offset += part.input_extent;
      }
      return total * (1 + outputs);
    }
    case OpKind::kAcquireSlot:
    case OpKind::kCapture:
    case OpKind::kGraph:
      return 0;
  }
  return 0;
}

void CarryOut(const Descriptor& descriptor, absl::Span<const Part> parts, int64_t piece,
              int64_t pieces) {
  switch (descriptor.kind) {
    case OpKind::kAllReduce: {
      // A slice is whole cache lines, so that no line is written by two threads.
      const int64_t unit = std::max<int64_t>(1, kLineBytes / SizeOf(descriptor.dtype));
      const Range elements = Slice(descriptor.shape.elements(), unit, piece, pieces);
      if (elements.begin < elements.end) Reduce(descriptor, parts, elements);
      return;
    }
    case OpKind::kGather:
    case OpKind::kAllGather:
      Gather(descriptor, parts, piece, pieces);
      return;
    case OpKind::kAcquireSlot:
    case OpKind::kCapture:
    case OpKind::kGraph:
      return;
  }
}

}  // namespace mp::host
