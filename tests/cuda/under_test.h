// The CUDA backend over the fakes, for the contract suite.
//
// Every test has a fake machine of its own, which is asked for its verdict when the test has ended:
// what would have hung or is left alive fails the test.  The backends of a test share it, and their
// devices are not in the order of its own.
#ifndef MP_TESTS_CUDA_UNDER_TEST_H_
#define MP_TESTS_CUDA_UNDER_TEST_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "mp/cuda/backend.h"
#include "mp/cuda/status.h"
#include "mp/kernel.h"
#include "tests/contract/backend_under_test.h"
#include "tests/fake/machine.h"

namespace mp::test {

// As many as the largest test has ranks.
inline constexpr int kFakeDevices = 64;

// A machine for each test that asks for one.  Its seeds are odd where streams run by themselves.
class MachinePerTest : public ::testing::EmptyTestEventListener {
 public:
  MachinePerTest(bool runs_unwatched, bool peers) : seed_(runs_unwatched ? 1 : 2), peers_(peers) {}

  void Provide() {
    if (machine_ != nullptr) return;
    std::set<std::pair<int, int>> no_access;
    for (int from = 0; !peers_ && from < kFakeDevices; ++from) {
      for (int to = 0; to < kFakeDevices; ++to) no_access.insert({from, to});
    }
    machine_ =
        std::make_unique<fake::Machine>(fake::Options{.devices = kFakeDevices,
                                                      .seed = std::exchange(seed_, seed_ + 2),
                                                      .stall_limit = absl::Minutes(1),
                                                      .no_access = std::move(no_access)});
  }

 private:
  void OnTestEnd(const ::testing::TestInfo&) override {
    if (machine_ == nullptr) return;
    EXPECT_EQ(machine_->Verdict(), "");
    machine_.reset();
  }

  uint64_t seed_;
  const bool peers_;
  std::unique_ptr<fake::Machine> machine_;
};

// Work of a stream reaches the memory of devices itself.
inline void CopyWithDevice(void* to, const void* from, size_t bytes) {
  if (fake::Machine::RunsThisThread()) return CopyOnHost(to, from, bytes);
  EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), cudaSuccess);
}

// The body runs as a function of the host that its stream comes to.
struct HostFunction {
  using Body = std::function<void()>;
  std::shared_ptr<const Body> body;

  void operator()() const {}  // there is no host to run it on
  absl::Status LaunchOn(const NativeStream& native) const {
    const auto stream = static_cast<cudaStream_t>(native.handle);
    cudaStreamCaptureStatus status{};
    MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamIsCapturing(stream, &status)));
    if (status != cudaStreamCaptureStatusNone) {  // the graph keeps the kernel, which runs often
      const auto run = [](void* data) { (*static_cast<const Body*>(data))(); };
      return MP_CUDA(cudaLaunchHostFunc(stream, run, const_cast<Body*>(body.get())));
    }
    auto held = std::make_unique<Body>(*body);
    const auto run_once = [](void* data) {
      const std::unique_ptr<Body> taken(static_cast<Body*>(data));
      (*taken)();
    };
    MP_RETURN_IF_ERROR(MP_CUDA(cudaLaunchHostFunc(stream, run_once, held.get())));
    held.release();
    return absl::OkStatus();
  }
};

// Not what needs a pass over each input before it is reduced into one output for all.
inline bool NcclReduces(const Reduction& it) {
  if (it.scale == 1 || it.ranks == 1 || !it.shared_output) return true;
  const bool narrow = it.dtype == DType::kF16 || it.dtype == DType::kBF16;
  const bool sums = it.op == ReduceOp::kSum || it.op == ReduceOp::kAvg;
  return sums && !(narrow && it.scale == 0.3);
}

// How a test program has the backend.
struct CudaSetup {
  const char* name;
  bool runs_unwatched = true;
  cuda::Transport transport = cuda::Transport::kAuto;
  int gpus = kFakeDevices;  // fewer than ranks: they share
  bool peers = true;        // GPUs reach each other's memory
};

inline BackendUnderTest CudaUnderTest(const CudaSetup& cuda) {
  auto* machines =
      new MachinePerTest(cuda.runs_unwatched, cuda.peers);  // GoogleTest's from the next line on
  ::testing::UnitTest::GetInstance()->listeners().Append(machines);
  const bool nccl_alone = cuda.transport == cuda::Transport::kNccl;
  const bool direct = cuda.transport == cuda::Transport::kDirect;
  return {.name = cuda.name,
          .make =
              [machines, cuda](const Setup& setup) {
                machines->Provide();
                cuda::Options options{.transport = cuda.transport, .clock = setup.clock};
                options.workspace_bytes = 4096;  // so that much goes in pieces
                for (int i = 0; i < setup.devices; ++i) {
                  options.devices.push_back((7 * (i % cuda.gpus) + 3) % kFakeDevices);
                }
                return cuda::NewBackend(options);
              },
          .copy_in = CopyWithDevice,
          .copy_out = CopyWithDevice,
          .kernel =
              [](std::function<void()> body) {
                return Kernel(
                    HostFunction{std::make_shared<const HostFunction::Body>(std::move(body))});
              },
          .folds_in_rank_order = direct,
          .doors_never_wait = false,
          .runs_unwatched = cuda.runs_unwatched,
          .records = false,
          .tells_the_end = false,
          .shares_devices = !nccl_alone,
          .reduces_any_memory = direct,
          .reduces_at_any_byte = !nccl_alone,
          .compute_can_fail = false,
          .knows_its_compute = false,
          .replays = 500,  // each starts dozens of threads of the fakes
          .reduces = nccl_alone ? NcclReduces : EveryReduction};
}

}  // namespace mp::test

#endif  // MP_TESTS_CUDA_UNDER_TEST_H_
