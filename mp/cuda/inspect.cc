// What a CudaCommunicator can carry out: the routes of operations, and the memory that they take.
#include <algorithm>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "mp/base/status.h"
#include "mp/cuda/communicator.h"
#include "mp/cuda/memory.h"
#include "mp/cuda/reduction.h"

namespace mp::cuda {
namespace {

bool IsAligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(SizeOf(dtype)) == 0;
}

// Whether an input or output of this extent has no element.
bool IsEmpty(const Descriptor& step, int64_t extent) {
  if (step.dim < 0) return step.shape.elements() == 0;
  return step.shape.With(step.dim, extent).elements() == 0;
}

}  // namespace

absl::StatusOr<size_t> CudaCommunicator::OwnerOf(const void* data) const {
  MP_ASSIGN_OR_RETURN(const int ordinal, cuda::OwnerOf(data));
  for (size_t peer = 0; peer < size(); ++peer) {
    if (device(peer).ordinal() == ordinal) return peer;
  }
  return InvalidArgument("is memory of cuda ", ordinal, ", which is no device of the Region");
}

// Kernels of any GPU may reach for it, NCCL's as well: within a process they read the memory of
// peers in place.
absl::Status CudaCommunicator::CheckOpen(const void* data, size_t owner) const {
  absl::InlinedVector<int, 16> peers;
  for (size_t peer = 0; peer < size(); ++peer) {
    const int ordinal = device(peer).ordinal();
    if (ordinal == device(owner).ordinal() || !device(peer).reaches(device(owner))) continue;
    if (std::find(peers.begin(), peers.end(), ordinal) == peers.end()) peers.push_back(ordinal);
  }
  const std::vector<int> closed = ClosedTo(data, peers);
  if (closed.empty()) return absl::OkStatus();
  return InvalidArgument("is memory of ", device(owner).name(), " (", RangeOf(data),
                         ") that is closed to cuda ", absl::StrJoin(closed, ", cuda "),
                         ": a pool opens by cudaMemPoolSetAccess, a mapping by cuMemSetAccess");
}

absl::Status CudaCommunicator::CheckMemory(OpKind kind, absl::string_view what, const void* data,
                                           int peer, bool own) const {
  if (data == nullptr) return absl::OkStatus();
  const Device& here = device(static_cast<size_t>(peer));
  const absl::StatusOr<size_t> owner = OwnerOf(data);
  absl::Status status = owner.status();
  if (owner.ok() && own && device(*owner).ordinal() != here.ordinal()) {
    status = InvalidArgument("is memory of ", device(*owner).name());
  }
  if (status.ok()) status = CheckOpen(data, *owner);
  if (status.ok()) return status;
  return MakeError(KindOf(status), absl::StrCat(OpKindName(kind), ": the ", what, " at ",
                                                absl::StrFormat("%p", data), " ", status.message(),
                                                "; the rank is on ", here.name()));
}

StepRoute CudaCommunicator::RouteFor(const Descriptor& step, absl::Span<const Part> parts,
                                     const Reach& reach) {
  const bool aligned = std::all_of(parts.begin(), parts.end(), [&step](const Part& part) {
    return IsAligned(part.input, step.dtype) && IsAligned(part.output, step.dtype);
  });
  return RouteOf(step, aligned, reach);
}

absl::Status CudaCommunicator::Inspect(const Descriptor& step, const Part& part, int peer) const {
  // NCCL takes memory of the rank's own device.
  const bool own = step.kind == OpKind::kAllReduce && reach_.nccl;
  if (RouteFor(step, {&part, 1}, reach_) == StepRoute::kNccl) {
    MP_RETURN_IF_ERROR(CheckReduction(step));
    if (!IsAligned(part.input, step.dtype) || !IsAligned(part.output, step.dtype)) {
      return InvalidArgument("AllReduce over NCCL: a pointer is no multiple of the ",
                             SizeOf(step.dtype), " bytes of ", DTypeName(step.dtype));
    }
  }
  if (!IsEmpty(step, part.input_extent)) {
    MP_RETURN_IF_ERROR(CheckMemory(step.kind, "input", part.input, peer, own));
  }
  if (part.output == part.input || IsEmpty(step, part.output_extent)) return absl::OkStatus();
  return CheckMemory(step.kind, "output", part.output, peer, own && !step.shared_output);
}

}  // namespace mp::cuda
