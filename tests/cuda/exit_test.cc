// SHUT-2: a World that is static is destroyed by exit(), when the CUDA driver may be unloading
// already: no wait, exit code 0.  A child process each.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "mp/cuda/backend.h"
#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/fake/machine.h"
#include "tests/support/child.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using test::ChildEnd;
using test::InChild;

// Makes a static World that has worked, and one that has work queued.
std::string Use(const std::shared_ptr<Backend>& backend) {
  static std::unique_ptr<World> world;
  static std::vector<Buffer> buffers;
  world = World::Create(backend).value();
  for (int rank = 0; rank < world->world_size(); ++rank) {
    buffers.push_back(world->device(rank).Allocate(DType::kF32, {4}).value());
  }
  std::vector<TensorView> views;
  for (const Buffer& buffer : buffers) views.push_back(buffer.view());
  if (!world->region().AllReduce(views).ok() || !world->Synchronize().ok()) return "no sum";
  return world->region().StartAllReduce(views).ok() ? "" : "no sum begins";
}

TEST(Shut2, AStaticWorldOfTheHost) {
  EXPECT_EQ(InChild([] { return Use(host::NewBackend({.devices = 3}).value()); }, ChildEnd::kExit),
            "");
}

TEST(Shut2, AStaticWorldOfCudaWhoseDriverIsThereOrUnloading) {
  for (const bool unloading : {false, true}) {
    for (const Options& options :
         {Options{.devices = {0, 1}, .transport = Transport::kNccl}, Options{.devices = {0, 0}}}) {
      EXPECT_EQ(InChild(
                    [&] {
                      static auto* machine = new fake::Machine({.devices = 2});
                      const std::string said = Use(NewBackend(options).value());
                      if (unloading) machine->Lose(cudaErrorCudartUnloading);
                      return said;
                    },
                    ChildEnd::kExit),
                "")
          << unloading;
    }
  }
}

}  // namespace
}  // namespace mp::cuda
