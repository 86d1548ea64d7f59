#include "tests/fake/kernels/launch.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace mp::fake {
namespace {

struct Launch {
  std::function<void(Interleaved)> run;
  uint64_t seed;
};

// What a machine that broke down never runs stays here.
struct Launches {
  std::mutex mutex;
  uint64_t count = 0;
  std::set<std::unique_ptr<Launch>> queued;
};

Launches& All() {
  static auto* all = new Launches;
  return *all;
}

std::unique_ptr<Launch> Take(const void* data) {
  Launches& all = All();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (auto it = all.queued.begin(); it != all.queued.end(); ++it) {
    if (it->get() == data) return std::move(all.queued.extract(it).value());
  }
  return nullptr;
}

void Run(void* data) {
  const std::unique_ptr<Launch> launch = Take(data);
  launch->run(Interleaved{launch->seed});
}

}  // namespace

cudaError_t EnqueueKernel(cudaStream_t stream, std::function<void(Interleaved)> run) {
  Launches& all = All();
  auto made = std::make_unique<Launch>();
  made->run = std::move(run);
  Launch* launch = made.get();
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    launch->seed = ++all.count;
    all.queued.insert(std::move(made));
  }
  const cudaError_t result = cudaLaunchHostFunc(stream, Run, launch);
  if (result != cudaSuccess) Take(launch);
  return result;
}

}  // namespace mp::fake
