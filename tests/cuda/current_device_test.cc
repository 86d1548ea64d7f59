// The calling thread's device is what it was before the scope, whatever was done inside it.
#include "mp/cuda/current_device.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/fake/machine.h"

namespace mp::cuda {
namespace {

int Current() {
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  return device;
}

TEST(CurrentDevice, IsRestored) {
  fake::Machine machine({.devices = 3});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  {
    const CurrentDevice outer(2);
    EXPECT_EQ(outer.status(), absl::OkStatus());
    EXPECT_EQ(Current(), 2);
    {
      const CurrentDevice inner;
      cudaSetDevice(0);
    }
    EXPECT_EQ(Current(), 2);
  }
  EXPECT_EQ(Current(), 1);
}

TEST(CurrentDevice, CostsNoSwitchWhereItIsTheCurrentOne) {
  fake::Machine machine({.devices = 2});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  { const CurrentDevice same(1); }
  EXPECT_EQ(machine.calls("cudaSetDevice"), 1);
}

TEST(CurrentDevice, AnErrorLeavesTheThreadAsItWas) {
  fake::Machine machine({.devices = 2});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  {
    const CurrentDevice none(7);
    EXPECT_EQ(KindOf(none.status()), ErrorKind::kDeviceError);
  }
  EXPECT_EQ(Current(), 1);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(CurrentDevice, WithoutADriverIsAnError) {
  EXPECT_EQ(KindOf(CurrentDevice(0).status()), ErrorKind::kDeviceError);
}

}  // namespace
}  // namespace mp::cuda
