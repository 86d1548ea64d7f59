#include <cstring>

#include "mp/host/backend.h"
#include "tests/random/target.h"

namespace mp::test {
namespace {

class HostGround : public Ground {
 public:
  HostGround(host::Execution execution, uint64_t seed) : execution_(execution), seed_(seed) {}

  absl::StatusOr<std::shared_ptr<Backend>> NewBackend(int devices) override {
    return host::NewBackend({.devices = devices, .execution = execution_, .seed = seed_});
  }

 private:
  const host::Execution execution_;
  const uint64_t seed_;
};

template <host::Execution execution>
std::unique_ptr<Ground> NewGround(uint64_t seed) {
  return std::make_unique<HostGround>(execution, seed);
}

struct HostKernel {
  const Body* body;
  void operator()() const { body->Run(); }
};

void Copy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

std::vector<Target> HostTargets() {
  const auto kernel = [](const Body* body) { return Kernel(HostKernel{body}); };
  return {
      {.name = "host-pool",
       .new_ground = NewGround<host::Execution::kPool>,
       .kernel = kernel,
       .copy = Copy},
      {.name = "host-inline",
       .new_ground = NewGround<host::Execution::kInline>,
       .kernel = kernel,
       .copy = Copy},
      {.name = "host-seeded",
       .new_ground = NewGround<host::Execution::kSeeded>,
       .kernel = kernel,
       .copy = Copy,
       .stepped = true},
  };
}

}  // namespace mp::test
