// The contract suite on the machine's GPUs.  Worlds with more ranks than there are GPUs share them
// and go without NCCL.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "mp/cuda/backend.h"
#include "mp/cuda/status.h"
#include "mp/kernel.h"
#include "tests/contract/backend_under_test.h"

namespace mp::test {
namespace {

int GpuCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void CopyWithDevice(void* to, const void* from, size_t bytes) {
  EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), cudaSuccess);
}

// A body of the host that asks CUDA for memory, which nothing that a stream calls may do: it runs
// on the thread that queues it, when the stream has come there.
struct Waited {
  std::function<void()> body;

  void operator()() const {}  // there is no host to run it on
  absl::Status LaunchOn(const NativeStream& stream) const {
    MP_RETURN_IF_ERROR(MP_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.handle))));
    body();
    return absl::OkStatus();
  }
};

}  // namespace

BackendUnderTest ThisBackend() {
  const int gpus = GpuCount();
  const bool one = gpus <= 1;
  return {.name = "cuda",
          .make =
              [gpus](const Setup& setup) {
                cuda::Options options{.clock = setup.clock};
                for (int i = 0; i < setup.devices; ++i) options.devices.push_back(i % gpus);
                return cuda::NewBackend(options);
              },
          .copy_in = CopyWithDevice,
          .copy_out = CopyWithDevice,
          .kernel = [](std::function<void()> body) { return Kernel(Waited{std::move(body)}); },
          .folds_in_rank_order = one,
          .doors_never_wait = false,
          .runs_unwatched = false,
          .records = false,
          .reduces_any_memory = one,
          .compute_can_fail = false,
          .knows_its_compute = false,
          .graphs = false};  // what waits cannot be captured; graphs.cc has kernels that do not
}

}  // namespace mp::test
