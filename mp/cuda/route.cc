#include "mp/cuda/route.h"

#include "absl/strings/str_cat.h"

namespace mp::cuda {
namespace {

// First readings from what others have published, since these depend on the links; Options sets
// another one.  A launch of NCCL's takes 17 to 20 us whatever the size up to 64 KiB, on 8 GPUs with
// NVLink.  A fold costs the host one launch, n records and 2 (n - 1) waits, about half of that for
// 2 GPUs and as much for 8, and no byte more on a link than a ring.  What NCCL gains from there on
// is bandwidth: its multicast in a switch, which a fold does not use.
struct Limit {
  int gpus;
  int64_t bytes;
};
constexpr Limit kLimits[] = {{2, 1 << 20}, {4, 512 << 10}, {8, 256 << 10}};
constexpr int64_t kMoreGpus = 64 << 10;

bool IsGather(OpKind kind) { return kind == OpKind::kGather || kind == OpKind::kAllGather; }

std::string Size(int64_t bytes) {
  if (bytes > 0 && bytes % (1 << 20) == 0) return absl::StrCat(bytes >> 20, " MiB");
  return bytes % 1024 == 0 ? absl::StrCat(bytes / 1024, " KiB") : absl::StrCat(bytes, " bytes");
}

}  // namespace

int64_t DirectBytes(int gpus) {
  for (const Limit& limit : kLimits) {
    if (gpus <= limit.gpus) return limit.bytes;
  }
  return kMoreGpus;
}

StepRoute RouteOf(const Descriptor& step, bool aligned, const Reach& reach) {
  if (IsGather(step.kind)) {
    return reach.peers || !reach.nccl ? StepRoute::kCopy : StepRoute::kRelay;
  }
  if (step.kind != OpKind::kAllReduce || step.shape.elements() == 0) return StepRoute::kNone;
  const int64_t bytes = step.shape.elements() * SizeOf(step.dtype);
  const int64_t limit = reach.direct_bytes < 0 ? DirectBytes(reach.gpus) : reach.direct_bytes;
  if (reach.nccl && (!reach.direct || (aligned && bytes > limit))) return StepRoute::kNccl;
  return bytes <= kWholeFoldBytes || reach.gpus == 1 ? StepRoute::kFold : StepRoute::kSlicedFold;
}

std::string Describe(const Reach& reach) {
  std::string reduces = reach.direct ? "kernels over peer pointers" : "NCCL";
  if (reach.direct && reach.nccl) {
    const int64_t limit = reach.direct_bytes < 0 ? DirectBytes(reach.gpus) : reach.direct_bytes;
    absl::StrAppend(&reduces, " up to ", Size(limit), ", by NCCL above");
  }
  return absl::StrCat("AllReduce by ", reduces, "; Gather and AllGather by ",
                      reach.peers ? "copies straight into the peer's memory"
                                  : "NCCL and one pass from there into place");
}

}  // namespace mp::cuda
