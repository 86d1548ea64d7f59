#include "tests/fake/graph.h"

#include <algorithm>
#include <utility>

namespace mp::fake {
namespace {

class Launch final : public Task {
 public:
  Launch(Core& core, std::shared_ptr<Executable> executable, CUstream_st* stream)
      : core_(core), executable_(std::move(executable)), stream_(stream) {
    for (const CUgraphNode_st& node : executable_->nodes) tasks_.push_back(node.make(stream));
    executable_->launches.push_back(stream);
  }

  std::string Name() const override { return "cudaGraphLaunch"; }

  // Launches of one executable do not overlap.
  bool Ready() const override { return MayRun() && (IsDone() || !Heads(true).empty()); }

  bool Run() override {
    const std::vector<size_t> ready = Heads(true);
    if (!ready.empty()) {
      started_ = true;
      const size_t chosen = ready[core_.Choose(ready.size())];
      if (tasks_[chosen]->Run()) tasks_[chosen].reset();
    }
    if (core_.sticky != cudaSuccess || !IsDone()) return false;
    executable_->launches.erase(Mine());
    return true;
  }

  std::vector<Blocker> Blockers() const override {
    if (!MayRun()) return {{executable_->launches.front(), "waits for the launch before it"}};
    std::vector<Blocker> all;
    std::vector<Blocker> others;
    for (const size_t number : Heads(false)) {
      for (const Blocker& blocker : tasks_[number]->Blockers()) {
        all.push_back({blocker.stream, tasks_[number]->Name() + " " + blocker.why});
        if (blocker.stream != stream_) others.push_back(all.back());
      }
    }
    // What waits within the graph may go on when something else does.
    return others.empty() ? all : others;
  }

  bool RunsOn(int device) const override {
    return std::any_of(executable_->nodes.begin(), executable_->nodes.end(),
                       [device](const CUgraphNode_st& node) { return node.device == device; });
  }

 private:
  // Two launches on one stream run in its order.
  std::deque<CUstream_st*>::const_iterator Mine() const {
    return std::find(executable_->launches.begin(), executable_->launches.end(), stream_);
  }
  bool MayRun() const { return started_ || Mine() == executable_->launches.begin(); }
  bool IsDone() const {
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const auto& task) { return task == nullptr; });
  }
  // The tasks with nothing before them that are ready, or not.
  std::vector<size_t> Heads(bool ready) const {
    std::vector<size_t> heads;
    for (size_t number = 0; number < tasks_.size(); ++number) {
      if (tasks_[number] == nullptr) continue;
      const std::set<size_t>& after = executable_->nodes[number].after;
      const bool free = std::all_of(after.begin(), after.end(),
                                    [this](size_t before) { return tasks_[before] == nullptr; });
      if (free && tasks_[number]->Ready() == ready) heads.push_back(number);
    }
    return heads;
  }

  Core& core_;
  const std::shared_ptr<Executable> executable_;
  CUstream_st* const stream_;
  std::vector<std::unique_ptr<Task>> tasks_;  // null where done
  bool started_ = false;
};

}  // namespace

cudaError_t Record(CUstream_st& stream, MakeTask make) {
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  std::deque<CUgraphNode_st>& nodes = stream.capture->graph->nodes;
  nodes.push_back({std::move(make), stream.device, stream.seen});
  stream.seen = {nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t RefuseUnsafeCall(Core& core) {
  const cudaStreamCaptureMode mode = core.thread().capture_mode;
  if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t result = cudaSuccess;
  for (const auto& capture : core.captures) {
    const bool here = capture->thread == std::this_thread::get_id();
    const bool forbids =
        here ? capture->mode != cudaStreamCaptureModeRelaxed
             : capture->mode == cudaStreamCaptureModeGlobal && mode == cudaStreamCaptureModeGlobal;
    if (!forbids) continue;
    capture->invalid = true;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

cudaError_t RefuseCapturing(CUstream_st& stream) {
  if (stream.capture == nullptr) return cudaSuccess;
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  stream.capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

std::unique_ptr<Task> NewLaunch(Core& core, std::shared_ptr<Executable> executable,
                                CUstream_st* stream) {
  return std::make_unique<Launch>(core, std::move(executable), stream);
}

}  // namespace mp::fake
