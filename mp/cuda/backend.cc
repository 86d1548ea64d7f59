#include "mp/cuda/backend.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "mp/base/status.h"
#include "mp/cuda/clique.h"
#include "mp/cuda/communicator.h"
#include "mp/cuda/device.h"
#include "mp/cuda/status.h"

namespace mp::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(sync::Clock& clock) : clock_(clock) {}

  absl::Status Open(const std::vector<int>& ordinals) {
    for (const int ordinal : ordinals) {
      const int index = static_cast<int>(devices_.size());
      devices_.push_back(std::make_unique<Device>(index, ordinal, clock_, launch_));
    }
    for (const auto& from : devices_) {
      MP_RETURN_IF_ERROR(from->Open());
      for (const auto& to : devices_) {
        if (from != to) MP_RETURN_IF_ERROR(from->ReachPeer(*to));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::string_view DoName() const override { return "cuda"; }
  int DoDeviceCount() const override { return static_cast<int>(devices_.size()); }
  mp::Device& DoDevice(int index) override { return *devices_[static_cast<size_t>(index)]; }
  sync::Clock& DoClock() override { return clock_; }
  bool DoRecords() const override { return false; }
  absl::StatusOr<std::unique_ptr<Communicator>> DoNewCommunicator(
      const std::vector<int>& devices) override {
    std::vector<Device*> members;
    for (const int index : devices) members.push_back(devices_[static_cast<size_t>(index)].get());
    for (size_t i = 0; i < members.size(); ++i) {
      const auto first = std::find(members.begin(), members.end(), members[i]) - members.begin();
      if (static_cast<size_t>(first) == i) continue;
      return InvalidArgument(members[i]->name(), " is named for ranks ", first, " and ", i,
                             ": NCCL takes one rank on a device");
    }
    std::vector<int> ranks(members.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    MP_ASSIGN_OR_RETURN(std::shared_ptr<Clique> clique,
                        Clique::Create(std::move(members), launch_, clock_));
    return NcclCommunicator::Create(std::move(clique), std::move(ranks));
  }

  sync::Clock& clock_;
  // Held by whoever launches one operation on several devices, and by what can block a device.
  sync::Mutex launch_;
  std::vector<std::unique_ptr<Device>> devices_;
};

absl::StatusOr<std::vector<int>> Ordinals(const std::vector<int>& wanted) {
  int count = 0;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaGetDeviceCount(&count)));
  std::vector<bool> taken(static_cast<size_t>(count), false);
  std::vector<int> ordinals = wanted;
  for (int i = 0; wanted.empty() && i < count; ++i) ordinals.push_back(i);
  for (const int ordinal : ordinals) {
    if (ordinal < 0 || ordinal >= count) {
      return InvalidArgument("cuda ", ordinal, ": this machine has ", count, " GPUs");
    }
    if (taken[static_cast<size_t>(ordinal)]) {
      return InvalidArgument("cuda ", ordinal, " is named twice");
    }
    taken[static_cast<size_t>(ordinal)] = true;
  }
  return ordinals;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Backend>> NewBackend(const Options& options) {
  MP_ASSIGN_OR_RETURN(const std::vector<int> ordinals, Ordinals(options.devices));
  auto backend = std::make_shared<CudaBackend>(options.clock != nullptr ? *options.clock
                                                                        : sync::Clock::Steady());
  MP_RETURN_IF_ERROR(backend->Open(ordinals));
  return backend;
}

}  // namespace mp::cuda
