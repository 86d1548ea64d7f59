#include "mp/cuda/direct.h"

#include <algorithm>
#include <utility>

#include "mp/base/status.h"
#include "mp/cuda/push_copy.h"
#include "mp/cuda/status.h"
#include "mp/cuda/stream.h"

namespace mp::cuda {
namespace {

// A copy engine leaves the multiprocessors alone, but is slow to start and slow with short rows;
// within one GPU it is slow throughout.
constexpr size_t kEngineBytes = 1 << 20;
constexpr size_t kEngineRowBytes = 4096;

// Slices end on whole lines of a GPU's cache.
constexpr int64_t kLineBytes = 128;

int64_t SliceBound(const Descriptor& step, int64_t slice, int64_t slices) {
  const int64_t elements = step.shape.elements();
  const int64_t unit = std::max<int64_t>(kLineBytes / SizeOf(step.dtype), 1);
  const int64_t units = (elements + unit - 1) / unit;
  const int64_t before = units / slices * slice + std::min(units % slices, slice);
  return std::min(before * unit, elements);
}

template <typename Take>
void ForEachRow(const Push& push, const Take& take) {
  Push row = push;
  row.height = row.depth = row.from.rows = row.to.rows = 1;
  row.from.pitch = row.to.pitch = push.width;
  for (size_t block = 0; block < push.depth; ++block) {
    for (size_t i = 0; i < push.height; ++i) {
      row.from.data = push.from.data + (block * push.from.rows + i) * push.from.pitch;
      row.to.data = push.to.data + (block * push.to.rows + i) * push.to.pitch;
      take(row);
    }
  }
}

// Which devices the memory is of, the driver knows itself.
absl::Status EnqueuePush(const Push& push, cudaStream_t stream) {
  const auto side = [&push](const Push::Side& it) {
    return cudaPitchedPtr{it.data, it.pitch, push.width, it.rows};
  };
  cudaMemcpy3DParms copy{};
  copy.srcPtr = side(push.from);
  copy.dstPtr = side(push.to);
  copy.extent = {push.width, push.height, push.depth};
  copy.kind = cudaMemcpyDefault;
  return MP_CUDA(cudaMemcpy3DAsync(&copy, stream));
}

}  // namespace

Direct::Direct(std::vector<const Device*> devices)
    : devices_(std::move(devices)), leader_of_(devices_.size()), work_(devices_.size()) {
  for (size_t peer = 0; peer < devices_.size(); ++peer) {
    const auto same = [&](size_t leader) {
      return devices_[leader]->ordinal() == devices_[peer]->ordinal();
    };
    const auto found = std::find_if(leaders_.begin(), leaders_.end(), same);
    leader_of_[peer] = found == leaders_.end() ? peer : *found;
    if (found == leaders_.end()) leaders_.push_back(peer);
    for (const Device* other : devices_) {
      reaches_all_ = reaches_all_ && devices_[peer]->reaches(*other);
    }
  }
}

void Direct::Clear() {
  for (Work& work : work_) {
    work.folds.clear();
    work.copies.clear();
    work.pushes.clear();
  }
}

bool Direct::central() const {
  return std::all_of(work_.begin() + 1, work_.end(), [](const Work& work) { return work.empty(); });
}

void Direct::AddFold(const Descriptor& step, absl::Span<const Part> parts, bool sliced) {
  Fold fold;
  fold.dtype = step.dtype;
  fold.op = step.reduce_op;
  fold.scale = step.scale;
  for (const Part& part : parts) {
    fold.inputs[fold.input_count++] = part.input;
    if (!step.shared_output || fold.output_count == 0) {
      fold.outputs[fold.output_count++] = part.output;
    }
  }
  const auto slices = static_cast<int64_t>(sliced ? leaders_.size() : 1);
  for (int64_t slice = 0; slice < slices; ++slice) {
    fold.begin = SliceBound(step, slice, slices);
    fold.end = SliceBound(step, slice + 1, slices);
    if (fold.begin < fold.end) work_[leaders_[static_cast<size_t>(slice)]].folds.push_back(fold);
  }
}

void Direct::AddPush(const Push& push) {
  const auto source = static_cast<size_t>(push.source);
  const auto target = static_cast<size_t>(push.target);
  const bool same = leader_of_[source] == leader_of_[target];
  const bool few_bytes =
      push.width < kEngineRowBytes || push.width * push.height * push.depth < kEngineBytes;
  const bool too_long = push.from.pitch > kLongestPitch || push.to.pitch > kLongestPitch;
  Work& work = work_[leader_of_[source]];
  if (devices_[source]->reaches(*devices_[target]) && (same || few_bytes || too_long)) {
    work.copies.push_back(CopyOf(push));
  } else if (!too_long) {
    work.pushes.push_back(push);
  } else {
    ForEachRow(push, [&work](const Push& row) { work.pushes.push_back(row); });
  }
}

absl::Status Direct::Launch(const Operation& operation) const {
  for (const size_t leader : leaders_) {
    if (!works(leader)) continue;
    MP_RETURN_IF_ERROR(MP_CUDA(cudaSetDevice(devices_[leader]->ordinal())));
    MP_RETURN_IF_ERROR(LaunchWork(work_[leader], Stream::Of(*operation.streams[leader]).handle()));
  }
  return absl::OkStatus();
}

absl::Status Direct::LaunchWork(const Work& work, cudaStream_t stream) const {
  for (const Fold& fold : work.folds) MP_RETURN_IF_ERROR(MP_CUDA(LaunchFold(fold, stream)));
  if (!work.copies.empty()) {
    const int count = static_cast<int>(work.copies.size());
    MP_RETURN_IF_ERROR(MP_CUDA(LaunchCopies(work.copies.data(), count, stream)));
  }
  for (const Push& push : work.pushes) MP_RETURN_IF_ERROR(EnqueuePush(push, stream));
  return absl::OkStatus();
}

}  // namespace mp::cuda
