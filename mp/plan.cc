#include "mp/plan.h"

#include "mp/base/status.h"

namespace mp {
namespace {

absl::Status CheckReduction(DType dtype, const AllReduceOptions& options) {
  if (!IsReducible(dtype)) {
    return Unsupported("AllReduce of ", DTypeName(dtype),
                       ": f32, f64, f16, bf16, i8, u8, i32, u32, i64 and u64 can be reduced, ",
                       DTypeName(dtype), " can only be gathered");
  }
  if (static_cast<int>(options.op) >= kReduceOpCount) {
    return InvalidArgument("AllReduce: unknown operation ", static_cast<int>(options.op));
  }
  if (IsReducibleFloat(dtype)) return absl::OkStatus();
  if (options.op == ReduceOp::kAvg) {
    return Unsupported("AllReduce avg of ", DTypeName(dtype),
                       ": the average is defined for f32, f64, f16 and bf16");
  }
  if (options.scale != 1.0) {
    return Unsupported("AllReduce of ", DTypeName(dtype), " with scale ", options.scale,
                       ": a scale is defined for f32, f64, f16 and bf16");
  }
  return absl::OkStatus();
}

absl::Status CheckDense(const TensorView& view, absl::string_view what) {
  if (view.is_dense()) return absl::OkStatus();
  return InvalidArgument("AllReduce: ", what, " ", view.ToString(), " is not dense (rows of ",
                         view.row_bytes(), " bytes, ", view.row_pitch(),
                         " apart); a reduction takes dense tensors");
}

// Distinct views of one rank must not share memory partly.
absl::Status CheckApart(const TensorView& x, const TensorView& output) {
  const auto* a = static_cast<const char*>(x.data());
  const auto* b = static_cast<const char*>(output.data());
  if (a == b || a + x.extent_bytes() <= b || b + output.extent_bytes() <= a) {
    return absl::OkStatus();
  }
  return InvalidArgument("AllReduce: the output overlaps the input, ", b - a,
                         " bytes behind its beginning; it must be the input or apart from it");
}

absl::Status SetAbsenceTimeout(absl::string_view name, std::optional<absl::Duration> timeout,
                               Part& part) {
  if (!timeout.has_value()) return absl::OkStatus();
  if (*timeout < absl::ZeroDuration()) {
    return InvalidArgument(name, ": absence_timeout ", absl::FormatDuration(*timeout),
                           ": must not be negative");
  }
  part.absence_timeout = *timeout;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> NormalizeDim(int dim, const TensorView& view) {
  const int rank = view.shape().rank();
  if (rank == 0) {
    return InvalidArgument("a gather needs >= 1 dimension, ", view.ToString(), " has none");
  }
  if (dim < -rank || dim >= rank) {
    return InvalidArgument("dim ", dim, " of ", view.ToString(), ": must be in ", -rank, "..",
                           rank - 1);
  }
  return dim < 0 ? dim + rank : dim;
}

absl::StatusOr<Plan> PlanAllReduce(const TensorView& x, const TensorView& output,
                                   const AllReduceOptions& options) {
  MP_RETURN_IF_ERROR(x.Check("AllReduce: the input"));
  MP_RETURN_IF_ERROR(output.Check("AllReduce: the output"));
  MP_RETURN_IF_ERROR(CheckReduction(x.dtype(), options));
  if (x.dtype() != output.dtype() || x.shape() != output.shape()) {
    return InvalidArgument("AllReduce: the input is ", x.ToString(), ", the output ",
                           output.ToString());
  }
  MP_RETURN_IF_ERROR(CheckDense(x, "the input"));
  MP_RETURN_IF_ERROR(CheckDense(output, "the output"));
  MP_RETURN_IF_ERROR(CheckApart(x, output));
  Plan plan;
  MP_RETURN_IF_ERROR(SetAbsenceTimeout("AllReduce", options.absence_timeout, plan.part));
  plan.descriptor.kind = OpKind::kAllReduce;
  plan.descriptor.dtype = x.dtype();
  plan.descriptor.reduce_op = options.op;
  plan.descriptor.scale = options.scale;
  plan.descriptor.shared_output = options.shared_output;
  plan.descriptor.shape = x.shape();
  plan.part.input = x.data();
  plan.part.input_pitch = x.row_pitch();
  plan.part.output = output.data();
  plan.part.output_pitch = output.row_pitch();
  return plan;
}

absl::StatusOr<Plan> PlanGather(const TensorView& shard, const TensorView& output, int root,
                                int world_size, bool receives, const GatherOptions& options) {
  const absl::string_view name = root < 0 ? "AllGather" : "Gather";
  MP_RETURN_IF_ERROR(shard.Check(root < 0 ? "AllGather: the shard" : "Gather: the shard"));
  MP_ASSIGN_OR_RETURN(const int dim, NormalizeDim(options.dim, shard));
  if (root >= world_size) {
    return InvalidArgument("Gather: root ", root, " of a Region of ", world_size, " ranks");
  }
  if (root >= 0 && options.shared_output) {
    return InvalidArgument("Gather: shared_output is for AllGather, here the root alone has one");
  }
  Plan plan;
  MP_RETURN_IF_ERROR(SetAbsenceTimeout(name, options.absence_timeout, plan.part));
  plan.descriptor.kind = root < 0 ? OpKind::kAllGather : OpKind::kGather;
  plan.descriptor.dtype = shard.dtype();
  plan.descriptor.root = root < 0 ? -1 : root;
  plan.descriptor.dim = dim;
  plan.descriptor.shared_output = options.shared_output;
  plan.descriptor.shape = shard.shape().With(dim, 0);
  plan.part.input = shard.data();
  plan.part.input_pitch = shard.row_pitch();
  plan.part.input_extent = shard.shape().dim(dim);
  if (!receives) return plan;
  MP_RETURN_IF_ERROR(output.Check(root < 0 ? "AllGather: the output" : "Gather: the output"));
  if (output.dtype() != shard.dtype() || output.shape().rank() != shard.shape().rank() ||
      output.shape().With(dim, 0) != plan.descriptor.shape) {
    return InvalidArgument(name, ": the shard is ", shard.ToString(), ", the output ",
                           output.ToString(), "; they may differ in dimension ", dim, " only");
  }
  if (output.shape().dim(dim) < plan.part.input_extent) {
    return InvalidArgument(name, ": the output ", output.ToString(), " is smaller than the shard ",
                           shard.ToString());
  }
  plan.part.output = output.data();
  plan.part.output_pitch = output.row_pitch();
  plan.part.output_extent = output.shape().dim(dim);
  return plan;
}

absl::StatusOr<Plan> PlanAcquireSlot(const AcquireSlotOptions& options) {
  Plan plan;
  MP_RETURN_IF_ERROR(SetAbsenceTimeout("AcquireSlot", options.absence_timeout, plan.part));
  plan.descriptor.kind = OpKind::kAcquireSlot;
  return plan;
}

}  // namespace mp
