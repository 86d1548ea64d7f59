// Groups of one rank: the same checks, and then nothing or one copy.
#include "mp/agreement.h"
#include "mp/group.h"

namespace mp {
namespace {

absl::StatusOr<TensorView> ViewOf(const Descriptor& step, const void* data, int64_t pitch,
                                  int64_t extent) {
  void* memory = const_cast<void*>(data);
  if (step.dim < 0) return TensorView(memory, step.dtype, step.shape);
  return TensorView::Pitched(memory, step.dtype, step.shape.With(step.dim, extent), pitch);
}

}  // namespace

absl::Status Group::CheckAlone(const Plan& plan) {
  if (failed_.load(sync::kAcquire)) return status();
  Operation operation;
  operation.world_size = 1;
  operation.steps = {plan.descriptor};
  operation.parts = {plan.part};
  const std::string wrong = FindDisagreement(operation, ranks_);
  if (!wrong.empty()) return InvalidArgument("Region \"", name(), "\": ", wrong);
  return absl::OkStatus();
}

absl::Status Group::PostAlone(const Plan& plan, Lane lane, Work* work) {
  if (failed_.load(sync::kAcquire)) return status();
  MP_RETURN_IF_ERROR(CheckRoom(0, lane));
  const Descriptor& step = plan.descriptor;
  const Part& part = plan.part;
  // Work is done when what the stream holds is: that may be what makes the data.
  Stream& stream = LaneStream(0, lane);
  MP_RETURN_IF_ERROR(OrderInputs(0, lane));
  if (work != nullptr) *work = Work(shared_from_this(), 0, stream.Record());
  if (step.kind == OpKind::kAcquireSlot) return absl::OkStatus();
  const bool in_place = part.input == part.output && part.input_pitch == part.output_pitch &&
                        part.input_extent == part.output_extent;
  if (in_place && step.scale == 1.0) return absl::OkStatus();
  MP_RETURN_IF_ERROR(CheckAlone(plan));
  MP_ASSIGN_OR_RETURN(const TensorView input,
                      ViewOf(step, part.input, part.input_pitch, part.input_extent));
  MP_ASSIGN_OR_RETURN(const TensorView output,
                      ViewOf(step, part.output, part.output_pitch, part.output_extent));
  MP_RETURN_IF_ERROR(step.scale == 1.0 ? stream.Copy(input, output)
                                       : stream.Scale(input, output, step.scale));
  if (work != nullptr) *work = Work(shared_from_this(), 0, stream.Record());
  return absl::OkStatus();
}

}  // namespace mp
