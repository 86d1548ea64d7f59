#include "mp/host/backend.h"

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/host/executor.h"
#include "mp/host/graph.h"
#include "mp/host/memory.h"
#include "mp/host/operation.h"
#include "mp/host/stream.h"

namespace mp::host {
namespace {

class HostCommunicator : public Communicator {
 public:
  HostCommunicator(Executor& executor, Memory& memory, sync::Clock& clock, int world_size)
      : executor_(executor), memory_(memory), clock_(clock), world_size_(world_size) {}

  bool holds_places() const override { return true; }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(const std::vector<int>& peers) override {
    return std::make_unique<HostCommunicator>(executor_, memory_, clock_,
                                              static_cast<int>(peers.size()));
  }
  absl::Status Inspect(const Descriptor&, const Part&, int) const override {
    return absl::OkStatus();
  }
  // What has begun here ends by itself.
  absl::Status Health() override { return absl::OkStatus(); }
  void Abort() override {}
  std::unique_ptr<Operation> NewOperation(Retirer& retirer) override {
    return std::make_unique<HostOperation>(executor_, retirer, world_size_);
  }
  bool Enter(Operation& operation, int peer) override { return Host(operation).Enter(peer); }
  absl::Status Issue(Operation& operation) override {
    Host(operation).Issue();
    return absl::OkStatus();
  }
  void Arrive(Operation& operation, int peer) override { Host(operation).Arrive(peer); }
  void ArriveAll(Operation& operation) override { Host(operation).ArriveAll(); }
  void Drop(Operation& operation) override { Host(operation).Drop(); }
  absl::StatusOr<std::unique_ptr<CompiledGraph>> Compile(const RecordedGraph& graph) override {
    return HostGraph::Compile(graph, executor_, memory_, clock_);
  }
  std::string Route() const override { return "host memory, one pass"; }

 private:
  static HostOperation& Host(Operation& operation) {
    return static_cast<HostOperation&>(operation);  // made by NewOperation
  }

  Executor& executor_;
  Memory& memory_;
  sync::Clock& clock_;
  const int world_size_;
};

class HostDevice : public Device {
 public:
  HostDevice(int index, Executor& executor, Memory& memory, sync::Clock& clock)
      : Device(index), executor_(executor), memory_(memory), clock_(clock) {}

 private:
  std::string DoName() const override { return absl::StrCat("host ", index()); }
  absl::StatusOr<void*> DoAllocate(int64_t bytes) override { return memory_.Allocate(bytes); }
  void DoFree(void* data) override { memory_.Free(data); }
  absl::StatusOr<std::unique_ptr<Stream>> DoNewStream() override {
    return std::make_unique<HostStream>(executor_, memory_, clock_, index());
  }
  absl::Status DoBindThisThread() override { return absl::OkStatus(); }

  Executor& executor_;
  Memory& memory_;
  sync::Clock& clock_;
};

class HostBackend : public Backend {
 public:
  HostBackend(std::unique_ptr<Executor> executor, sync::Clock& clock, int devices)
      : executor_(std::move(executor)), clock_(clock) {
    for (int i = 0; i < devices; ++i) {
      devices_.push_back(std::make_unique<HostDevice>(i, *executor_, memory_, clock_));
    }
  }

 private:
  absl::string_view DoName() const override { return "host"; }
  int DoDeviceCount() const override { return static_cast<int>(devices_.size()); }
  Device& DoDevice(int index) override { return *devices_[static_cast<size_t>(index)]; }
  sync::Clock& DoClock() override { return clock_; }
  bool DoRecords() const override { return true; }
  absl::Status DoCheckNotLost() const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Communicator>> DoNewCommunicator(
      const std::vector<int>& devices) override {
    return std::make_unique<HostCommunicator>(*executor_, memory_, clock_,
                                              static_cast<int>(devices.size()));
  }

  std::unique_ptr<Executor> executor_;
  Memory memory_;
  sync::Clock& clock_;
  std::vector<std::unique_ptr<HostDevice>> devices_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Backend>> NewBackend(const Options& options) {
  if (options.devices < 1 || options.threads < 0) {
    return InvalidArgument("host backend with ", options.devices, " devices and ", options.threads,
                           " threads");
  }
  try {
    MP_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, Executor::Create(options));
    sync::Clock& clock = options.clock != nullptr ? *options.clock : sync::Clock::Steady();
    return std::shared_ptr<Backend>(new HostBackend(std::move(executor), clock, options.devices),
                                    DeleteInMaker());
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorKind::kDeviceError, "host backend: no memory");
  }
}

}  // namespace mp::host
