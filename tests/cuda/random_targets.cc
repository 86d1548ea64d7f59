// The CUDA backend over the fakes, for random programs (tests/random/target.h).
#include <cuda_runtime_api.h>

#include <cstring>
#include <set>
#include <utility>

#include "mp/base/check.h"
#include "mp/base/status.h"
#include "mp/cuda/backend.h"
#include "mp/cuda/status.h"
#include "tests/fake/machine.h"
#include "tests/random/target.h"

namespace mp::test {
namespace {

constexpr int kDevices = 8;

class FakeGround : public Ground {
 public:
  FakeGround(uint64_t seed, cuda::Transport transport, int gpus, bool peers)
      : transport_(transport), gpus_(gpus) {
    std::set<std::pair<int, int>> no_access;
    for (int from = 0; !peers && from < kDevices; ++from) {
      for (int to = 0; to < kDevices; ++to) no_access.insert({from, to});
    }
    machine_ = std::make_unique<fake::Machine>(fake::Options{.devices = kDevices,
                                                             .seed = seed,
                                                             .stall_limit = absl::Minutes(1),
                                                             .no_access = std::move(no_access)});
  }

  absl::StatusOr<std::shared_ptr<Backend>> NewBackend(int devices) override {
    cuda::Options options{.transport = transport_};
    options.workspace_bytes = 4096;  // so that much goes in pieces
    for (int i = 0; i < devices; ++i) {
      options.devices.push_back((3 * (i % gpus_) + 1) % kDevices);
    }
    return cuda::NewBackend(options);
  }

  std::string Verdict() override { return machine_->Verdict(); }

 private:
  const cuda::Transport transport_;
  const int gpus_;
  std::unique_ptr<fake::Machine> machine_;
};

template <cuda::Transport transport, int gpus, bool peers>
std::unique_ptr<Ground> NewGround(uint64_t seed) {
  return std::make_unique<FakeGround>(seed, transport, gpus, peers);
}

// A function of the host that the stream comes to.
struct HostFunction {
  const Body* body;

  void operator()() const {}  // there is no host to run it on
  absl::Status LaunchOn(const NativeStream& native) const {
    const auto run = [](void* data) { static_cast<const Body*>(data)->Run(); };
    return MP_CUDA(
        cudaLaunchHostFunc(static_cast<cudaStream_t>(native.handle), run, const_cast<Body*>(body)));
  }
};

void Copy(void* to, const void* from, size_t bytes) {
  MP_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault) == cudaSuccess);
}

}  // namespace

std::vector<Target> FakeTargets() {
  using cuda::Transport;
  Target target{.name = "fakes",
                .new_ground = NewGround<Transport::kAuto, kDevices, true>,
                .kernel = [](const Body* body) { return Kernel(HostFunction{body}); },
                .copy = Copy,
                .folds_in_rank_order = false,
                .steps = 12,
                .rounds = 8,
                .most_ranks = 5,
                .trials = 60};
  std::vector<Target> targets = {target};
  target.name = "fakes-one-gpu";
  target.new_ground = NewGround<Transport::kDirect, 1, true>;
  target.folds_in_rank_order = true;
  targets.push_back(target);
  target.name = "fakes-two-gpus";
  target.new_ground = NewGround<Transport::kDirect, 2, true>;
  targets.push_back(target);
  target.name = "fakes-nccl";
  target.new_ground = NewGround<Transport::kNccl, kDevices, false>;
  target.folds_in_rank_order = false;
  target.reduces_at_any_byte = false;
  targets.push_back(target);
  return targets;
}

}  // namespace mp::test
