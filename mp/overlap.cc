#include "mp/overlap.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mp/agreement.h"

namespace mp {
namespace {

// One input or output of one rank in one step.
struct Claim {
  Footprint memory;
  int peer;
  int step;
  bool output;
};
using Claims = absl::InlinedVector<Claim, 32>;

bool IsGather(const Descriptor& step) { return step.dim >= 0; }

bool HasOutput(const Descriptor& step, int peer) {
  return step.kind != OpKind::kGather || peer == step.root;
}

Footprint FootprintOf(const Descriptor& step, const void* data, int64_t pitch, int64_t extent) {
  const char* begin = static_cast<const char*>(data);
  if (!IsGather(step)) {
    return {begin, 1, 0, step.shape.elements() * SizeOf(step.dtype)};
  }
  const GatherLayout layout = LayoutOf(step);
  if (layout.joins_columns) return {begin, layout.outer, pitch, layout.row_bytes * extent};
  return {begin, layout.outer * layout.run * extent, pitch, layout.row_bytes};
}

// The place in rank `receiver`'s output that the shard of `peer` is joined into.
Footprint SlotOf(const Descriptor& step, absl::Span<const Part> parts, int receiver, int peer) {
  const GatherLayout layout = LayoutOf(step);
  int64_t offset = 0;
  for (int r = 0; r < peer; ++r) offset += parts[static_cast<size_t>(r)].input_extent;
  const Part& target = parts[static_cast<size_t>(receiver)];
  const int64_t extent = parts[static_cast<size_t>(peer)].input_extent;
  const char* begin = static_cast<const char*>(target.output) +
                      (layout.joins_columns ? offset * layout.row_bytes
                                            : offset * layout.run * target.output_pitch);
  return FootprintOf(step, begin, target.output_pitch, extent);
}

// Whether `input` may be where `output` is: in place, or in its slot of the result.
bool MayCoincide(const Operation& operation, const Claim& output, const Claim& input) {
  if (output.step != input.step) return false;
  const Descriptor& step = operation.steps[static_cast<size_t>(input.step)];
  if (!IsGather(step)) {
    return output.memory.begin == input.memory.begin &&
           (output.peer == input.peer || step.shared_output);
  }
  const Footprint slot = SlotOf(step, operation.step_parts(input.step), output.peer, input.peer);
  const bool same_pitch = slot.pitch == input.memory.pitch || slot.rows <= 1;
  // With an earlier dimension joined a slot is rows of one pitch only if there is one block, or if
  // it is all of the output.
  const GatherLayout layout = LayoutOf(step);
  const absl::Span<const Part> parts = operation.step_parts(input.step);
  const bool whole = parts[static_cast<size_t>(input.peer)].input_extent ==
                     parts[static_cast<size_t>(output.peer)].output_extent;
  const bool one_block = layout.joins_columns || layout.outer <= 1 || whole;
  return slot.begin == input.memory.begin && same_pitch && one_block;
}

std::string Name(const Operation& operation, const Claim& claim, absl::Span<const int> ranks) {
  const auto begin = reinterpret_cast<uintptr_t>(claim.memory.begin);
  const auto end = reinterpret_cast<uintptr_t>(claim.memory.end());
  std::string text = absl::StrCat(claim.output ? "the output of rank " : "the input of rank ",
                                  ranks[static_cast<size_t>(claim.peer)],
                                  absl::StrFormat(" at [%#x, %#x)", begin, end));
  if (operation.step_count() > 1) absl::StrAppend(&text, " in step ", claim.step);
  return text;
}

std::string Kind(const Operation& operation, const Claim& claim) {
  return absl::StrCat(OpKindName(operation.steps[static_cast<size_t>(claim.step)].kind), ": ");
}

void Collect(const Operation& operation, Claims& outputs, Claims& inputs) {
  for (int s = 0; s < operation.step_count(); ++s) {
    const Descriptor& step = operation.steps[static_cast<size_t>(s)];
    if (!MovesData(step.kind)) continue;
    const absl::Span<const Part> parts = operation.step_parts(s);
    for (int peer = 0; peer < operation.world_size; ++peer) {
      const Part& part = parts[static_cast<size_t>(peer)];
      const Footprint input = FootprintOf(step, part.input, part.input_pitch, part.input_extent);
      if (!input.empty()) inputs.push_back({input, peer, s, false});
      if (!HasOutput(step, peer)) continue;
      const Footprint output =
          FootprintOf(step, part.output, part.output_pitch, part.output_extent);
      if (output.empty()) continue;
      if (step.shared_output && peer > 0) continue;  // one and the same: seen once
      outputs.push_back({output, peer, s, true});
    }
  }
}

// A shared output must be one on all ranks.
std::string FindUnshared(const Operation& operation, absl::Span<const int> ranks) {
  for (int s = 0; s < operation.step_count(); ++s) {
    const Descriptor& step = operation.steps[static_cast<size_t>(s)];
    if (!step.shared_output) continue;
    const absl::Span<const Part> parts = operation.step_parts(s);
    for (size_t peer = 1; peer < parts.size(); ++peer) {
      if (parts[peer].output == parts[0].output &&
          (!IsGather(step) || parts[peer].output_pitch == parts[0].output_pitch)) {
        continue;
      }
      return absl::StrCat(OpKindName(step.kind), " with shared_output: ranks ", ranks[0], " and ",
                          ranks[peer], " give different outputs");
    }
  }
  return "";
}

// No two claims' ranges touch but those of an input that is its own output: then nothing is
// looked at more closely.  The usual case, in about n steps.
bool PlainlyApart(Claims outputs, const Claims& inputs) {
  const auto before = [](const Claim& a, const Claim& b) {
    return a.memory.begin < b.memory.begin;
  };
  if (!std::is_sorted(outputs.begin(), outputs.end(), before)) {
    std::sort(outputs.begin(), outputs.end(), before);
  }
  for (size_t i = 1; i < outputs.size(); ++i) {
    if (outputs[i - 1].memory.end() > outputs[i].memory.begin) return false;
  }
  for (const Claim& input : inputs) {
    const auto next = std::upper_bound(outputs.begin(), outputs.end(), input, before);
    if (next != outputs.end() && input.memory.end() > next->memory.begin) return false;
    if (next == outputs.begin()) continue;
    const Claim& previous = *std::prev(next);
    if (previous.memory.end() <= input.memory.begin) continue;
    const bool in_place = previous.peer == input.peer && previous.step == input.step &&
                          previous.memory == input.memory;
    if (!in_place) return false;
  }
  return true;
}

// The commonest operation: one sum in place of few ranks, whose tensors are apart.
bool ApartInPlace(const Operation& operation) {
  const Descriptor& step = operation.steps[0];
  if (operation.step_count() != 1 || step.kind != OpKind::kAllReduce || step.shared_output) {
    return false;
  }
  constexpr size_t kFew = 8;
  const absl::Span<const Part> parts = operation.step_parts(0);
  if (parts.size() > kFew) return false;
  const auto bytes = static_cast<uintptr_t>(step.shape.elements() * SizeOf(step.dtype));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].input != parts[i].output) return false;
    const auto here = reinterpret_cast<uintptr_t>(parts[i].output);
    for (size_t j = 0; j < i; ++j) {
      const auto there = reinterpret_cast<uintptr_t>(parts[j].output);
      if (here - there < bytes || there - here < bytes) return false;
    }
  }
  return true;
}

}  // namespace

bool Overlap(const Footprint& a, const Footprint& b) {
  if (a.empty() || b.empty() || a.end() <= b.begin || b.end() <= a.begin) return false;
  const bool a_rows = a.rows > 1, b_rows = b.rows > 1;
  if (!a_rows && !b_rows) return true;
  if (a_rows && b_rows && a.pitch != b.pitch) return true;
  const int64_t pitch = a_rows ? a.pitch : b.pitch;
  // Where a's first row begins within b's pitch, counted from the beginning of b's row.
  const int64_t distance = (a.begin - b.begin) % pitch;
  const int64_t column = distance < 0 ? distance + pitch : distance;
  return !(column >= b.width && column + a.width <= pitch);
}

std::string FindOverlap(const Operation& operation, absl::Span<const int> ranks) {
  if (ApartInPlace(operation)) return "";
  std::string text = FindUnshared(operation, ranks);
  if (!text.empty()) return text;
  Claims outputs, inputs;
  Collect(operation, outputs, inputs);
  if (PlainlyApart(outputs, inputs)) return "";
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!Overlap(outputs[i].memory, outputs[j].memory)) continue;
      return absl::StrCat(Kind(operation, outputs[j]), Name(operation, outputs[j], ranks), " and ",
                          Name(operation, outputs[i], ranks), " overlap");
    }
    for (const Claim& input : inputs) {
      if (!Overlap(outputs[i].memory, input.memory)) continue;
      if (MayCoincide(operation, outputs[i], input)) continue;
      return absl::StrCat(Kind(operation, outputs[i]), Name(operation, outputs[i], ranks), " and ",
                          Name(operation, input, ranks),
                          " overlap, and the input is not exactly its own place in the output");
    }
  }
  return "";
}

}  // namespace mp
