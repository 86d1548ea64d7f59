#include "mp/operation.h"

namespace mp {

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

}  // namespace mp
