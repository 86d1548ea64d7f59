#include "mp/operation.h"

#include <algorithm>

namespace mp {
namespace {

SpanKind SpanKindOf(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return SpanKind::kAllReduce;
    case OpKind::kGather:
      return SpanKind::kGather;
    case OpKind::kAllGather:
      return SpanKind::kAllGather;
    case OpKind::kAcquireSlot:
      return SpanKind::kAcquireSlot;
    case OpKind::kCapture:
    case OpKind::kGraph:
      return SpanKind::kGraph;
  }
  return SpanKind::kBatch;
}

int64_t InputBytes(const Descriptor& descriptor, const Part& part) {
  if (!MovesData(descriptor.kind)) return 0;
  const Shape shape = descriptor.dim < 0 ? descriptor.shape
                                         : descriptor.shape.With(descriptor.dim, part.input_extent);
  return shape.elements() * SizeOf(descriptor.dtype);
}

}  // namespace

absl::string_view OpKindName(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return "AllReduce";
    case OpKind::kGather:
      return "Gather";
    case OpKind::kAllGather:
      return "AllGather";
    case OpKind::kAcquireSlot:
      return "AcquireSlot";
    case OpKind::kCapture:
      return "Capture";
    case OpKind::kGraph:
      return "Graph";
  }
  return "?";
}

GatherLayout LayoutOf(const Descriptor& descriptor) {
  const Shape& shape = descriptor.shape;
  const int last = shape.rank() - 1;
  GatherLayout layout;
  layout.outer = shape.Product(0, descriptor.dim);
  if (descriptor.dim == last) {
    layout.joins_columns = true;
    layout.row_bytes = SizeOf(descriptor.dtype);
  } else {
    layout.run = shape.Product(descriptor.dim + 1, last);
    layout.row_bytes = shape.columns() * SizeOf(descriptor.dtype);
  }
  return layout;
}

Span Operation::Outline() const {
  const bool one_kind =
      !steps.empty() &&
      std::all_of(steps.begin(), steps.end(), [this](const Descriptor& descriptor) {
        return descriptor.kind == steps.front().kind;
      });
  Span span;
  span.kind = one_kind ? SpanKindOf(steps.front().kind) : SpanKind::kBatch;
  span.name = one_kind ? OpKindName(steps.front().kind) : "Batch";
  span.region = traced_region;
  span.sequence = sequence;
  span.steps = step_count();
  return span;
}

Span Operation::SpanOf(int peer) const {
  Span span = Outline();
  for (int step = 0; step < step_count(); ++step) {
    span.bytes +=
        InputBytes(steps[static_cast<size_t>(step)], step_parts(step)[static_cast<size_t>(peer)]);
  }
  return span;
}

}  // namespace mp
