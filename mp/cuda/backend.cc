#include "mp/cuda/backend.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/string_view.h"
#include "mp/base/status.h"
#include "mp/cuda/clique.h"
#include "mp/cuda/communicator.h"
#include "mp/cuda/device.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/cuda/status.h"

namespace mp::cuda {
namespace {

// The Backends whose operations are collective kernels, by GPU: two orders of operations on one GPU
// could each wait for the other for ever.
class Claims {
 public:
  static Claims& All() {
    static auto* claims = new Claims;
    return *claims;
  }

  // UsageError: another one has one of the GPUs.
  absl::Status Add(const void* backend, const std::vector<Device*>& devices) {
    sync::MutexLock lock(mutex_);
    for (const Device* device : devices) {
      const auto found = owners_.find(device->ordinal());
      if (found == owners_.end() || found->second == backend) continue;
      return UsageError(
          device->name(), " is used over NCCL by another Backend of this process, ",
          "and there is no order between the two: use that one, or Transport::kDirect");
    }
    for (const Device* device : devices) owners_[device->ordinal()] = backend;
    return absl::OkStatus();
  }
  void Remove(const void* backend) {
    sync::MutexLock lock(mutex_);
    for (auto it = owners_.begin(); it != owners_.end();) {
      it = it->second == backend ? owners_.erase(it) : std::next(it);
    }
  }

 private:
  sync::Mutex mutex_;
  std::map<int, const void*> owners_;  // by ordinal; guarded by mutex_
};

// Whether every launch waits for its kernel, so that a thread cannot launch what a collective
// kernel waits for.
bool LaunchesBlock() {
  const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && value[0] != '\0' && absl::string_view(value) != "0";
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Options& options, sync::Clock& clock) : options_(options), clock_(clock) {}

  ~CudaBackend() override { Claims::All().Remove(this); }

  absl::Status Open(const std::vector<int>& ordinals) {
    for (const int ordinal : ordinals) {
      const int index = static_cast<int>(devices_.size());
      auto device = std::make_unique<Device>(index, ordinal, clock_, launch_);
      MP_RETURN_IF_ERROR(device->Open(devices_));
      devices_.push_back(std::move(device));
    }
    for (const auto& from : devices_) {
      for (const auto& to : devices_) MP_RETURN_IF_ERROR(from->ReachPeer(*to));
    }
    return absl::OkStatus();
  }

 private:
  absl::string_view DoName() const override { return "cuda"; }
  int DoDeviceCount() const override { return static_cast<int>(devices_.size()); }
  mp::Device& DoDevice(int index) override { return *devices_[static_cast<size_t>(index)]; }
  sync::Clock& DoClock() override { return clock_; }
  bool DoRecords() const override { return false; }
  absl::Status DoCheckNotLost() const override { return cuda::CheckNotLost(); }
  absl::StatusOr<std::unique_ptr<Communicator>> DoNewCommunicator(
      const std::vector<int>& devices) override {
    std::vector<Device*> members;
    for (const int index : devices) members.push_back(devices_[static_cast<size_t>(index)].get());
    MP_ASSIGN_OR_RETURN(const bool uses_nccl, UsesNccl(members));
    if (uses_nccl) MP_RETURN_IF_ERROR(Claims::All().Add(this, members));
    std::vector<int> ranks(members.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    MP_ASSIGN_OR_RETURN(std::shared_ptr<Clique> clique,
                        Clique::Create(std::move(members), uses_nccl, launch_, clock_));
    const CudaCommunicator::Limits limits = {
        .direct = options_.transport != Transport::kNccl,
        .direct_bytes = options_.direct_bytes.value_or(-1),
        .workspace_bytes = options_.workspace_bytes,
    };
    return CudaCommunicator::Create(std::move(clique), std::move(ranks), limits);
  }

  // Whether there is to be NCCL among these.  Otherwise an error where nothing else can be.
  absl::StatusOr<bool> UsesNccl(const std::vector<Device*>& members) const {
    const size_t twice = FirstTwice(members);
    if (options_.transport == Transport::kNccl) {
      if (twice < members.size()) {
        return InvalidArgument(members[twice]->name(), " is named for ranks ",
                               FirstOn(members, members[twice]->ordinal()), " and ", twice,
                               ": NCCL takes one rank on a device");
      }
      if (LaunchesBlock()) {
        return UsageError("CUDA_LAUNCH_BLOCKING is set: a launch would wait for kernels that wait ",
                          "for later launches; unset it, or use Transport::kDirect");
      }
      return true;
    }
    const bool may = options_.transport == Transport::kAuto && twice == members.size();
    int version = 0;
    if (may && !LaunchesBlock() && ncclGetVersion(&version) == ncclSuccess) return true;
    MP_RETURN_IF_ERROR(CheckDirect(members));
    return false;
  }

  static absl::Status CheckDirect(const std::vector<Device*>& members) {
    if (members.size() > size_t{kMostRanks}) {
      return InvalidArgument(members.size(), " ranks without NCCL: there may be ", kMostRanks);
    }
    for (const Device* from : members) {
      for (const Device* to : members) {
        if (from->reaches(*to)) continue;
        return InvalidArgument(from->name(), " does not reach the memory of ", to->name(),
                               ", which ranks without NCCL, or on a shared GPU, need");
      }
    }
    return absl::OkStatus();
  }

  // The first rank whose GPU another one has already; their number where there is none.
  static size_t FirstTwice(const std::vector<Device*>& members) {
    size_t i = 0;
    while (i < members.size() && FirstOn(members, members[i]->ordinal()) == i) ++i;
    return i;
  }
  static size_t FirstOn(const std::vector<Device*>& members, int ordinal) {
    const auto on = [ordinal](const Device* device) { return device->ordinal() == ordinal; };
    return static_cast<size_t>(std::find_if(members.begin(), members.end(), on) - members.begin());
  }

  const Options options_;
  sync::Clock& clock_;
  // Held by whoever launches one operation on several devices, and by what can block a device.
  sync::Mutex launch_;
  std::vector<std::unique_ptr<Device>> devices_;
};

absl::StatusOr<std::vector<int>> Ordinals(const Options& options) {
  int count = 0;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaGetDeviceCount(&count)));
  std::vector<int> ordinals = options.devices;
  for (int i = 0; options.devices.empty() && i < count; ++i) ordinals.push_back(i);
  for (auto at = ordinals.begin(); at != ordinals.end(); ++at) {
    if (*at < 0 || *at >= count) {
      return InvalidArgument("cuda ", *at, ": this machine has ", count, " GPUs");
    }
    const auto first = std::find(ordinals.begin(), at, *at);
    if (options.transport == Transport::kNccl && first != at) {
      return InvalidArgument("cuda ", *at, " is named for devices ", first - ordinals.begin(),
                             " and ", at - ordinals.begin(), ": NCCL takes one rank on a device");
    }
  }
  return ordinals;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Backend>> NewBackend(const Options& options) {
  if (options.workspace_bytes < 1) {
    return InvalidArgument("workspace_bytes ", options.workspace_bytes, ": must be positive");
  }
  MP_RETURN_IF_ERROR(CheckNotLost());
  MP_ASSIGN_OR_RETURN(const std::vector<int> ordinals, Ordinals(options));
  const std::shared_ptr<CudaBackend> backend(
      new CudaBackend(options, options.clock != nullptr ? *options.clock : sync::Clock::Steady()),
      DeleteInMaker());
  MP_RETURN_IF_ERROR(backend->Open(ordinals));
  return backend;
}

}  // namespace mp::cuda
