#include "tests/fake/kernels/launch.h"

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/fake/call.h"
#include "tests/fake/core.h"

namespace mp::fake {
namespace {

using Run = std::function<void(Interleaved)>;

// What all launches of one kernel node share.
struct Launch {
  Core& core;
  int device;
  std::vector<Range> ranges;
  Run run;
};

class Kernel final : public Task {
 public:
  explicit Kernel(std::shared_ptr<const Launch> launch) : launch_(std::move(launch)) {}

  std::string Name() const override { return "cudaLaunchKernel"; }
  bool Ready() const override { return !started_ || *ended_; }
  bool Run() override {
    if (started_) return true;
    started_ = true;
    Core& core = launch_->core;
    std::vector<std::shared_ptr<void>> memory;
    for (const Range& range : launch_->ranges) {
      const std::string why = core.Unreachable(launch_->device, range.data, range.bytes);
      if (!why.empty()) {
        core.Fault(cudaErrorIllegalAddress,
                   absl::StrCat("a kernel of device ", launch_->device, ": ", range.name, ", ",
                                range.bytes, " bytes: ", why));
        return false;
      }
      memory.push_back(core.Find(range.data, range.bytes)->memory);
    }
    core.RunBeside([launch = launch_, memory = std::move(memory), ended = ended_]() mutable {
      static std::atomic<uint64_t> seed{0};
      launch->run(Interleaved{++seed});
      std::lock_guard<std::mutex> lock(launch->core.mutex);
      memory.clear();  // whoever sees that it has ended may free it
      *ended = true;
      launch->core.Changed();
    });
    return false;
  }
  std::vector<Blocker> Blockers() const override { return {{nullptr, "runs"}}; }

 private:
  const std::shared_ptr<const Launch> launch_;
  bool started_ = false;
  const std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
};

}  // namespace

cudaError_t LaunchKernel(cudaStream_t stream, const std::string& symbol, std::vector<Range> ranges,
                         Run run) {
  MP_FAKE_BEGIN(cudaLaunchKernel);
  Core& core = call.core();
  if (core.streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  const int device = call.thread().device;
  if (stream->device != device) {
    return call.Refuse(cudaErrorInvalidResourceHandle,
                       absl::StrCat("a kernel is launched on ", stream->Name(), " while device ",
                                    device, " is the current one"));
  }
  if (core.loaded.insert({device, symbol}).second && core.collectives > 0) {
    core.Report(absl::StrCat("a first launch loads a kernel onto device ", device,
                             " while a collective is under way"));
  }
  const auto launch =
      std::make_shared<const Launch>(Launch{core, device, std::move(ranges), std::move(run)});
  return call.Submit(stream, [launch](CUstream_st*) { return std::make_unique<Kernel>(launch); });
}

cudaError_t LoadKernel(const std::string& symbol) {
  MP_FAKE_BEGIN(cudaFuncGetAttributes);
  const int device = call.thread().device;
  if (!call.AwaitRoomOn(device)) return call.Return(call.core().sticky);
  call.core().loaded.insert({device, symbol});
  return cudaSuccess;
}

}  // namespace mp::fake
