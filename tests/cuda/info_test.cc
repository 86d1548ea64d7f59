// What is told of a machine: all that the fakes have, in the words that people read; and each
// reason why there is nothing to tell.  Asking takes nothing of any GPU.

#include "mp/cuda/info.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fake/machine.h"

namespace mp::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Info, EveryGpu) {
  const fake::Machine machine({.devices = 3});
  const Info info = Look();
  EXPECT_EQ(info.runtime, "13.0");
  EXPECT_EQ(info.driver, "13.1");
  EXPECT_EQ(info.nccl, "2.28.9");
  EXPECT_EQ(info.why_no_gpu, "");
  EXPECT_EQ(info.why_no_nccl, "");
  ASSERT_EQ(info.gpus.size(), 3U);
  for (const Gpu& gpu : info.gpus) {
    EXPECT_EQ(gpu.name, "Fake GPU");
    EXPECT_EQ(gpu.major, 9);
    EXPECT_EQ(gpu.minor, 0);
    EXPECT_EQ(gpu.memory_bytes, int64_t{80} << 30);
    EXPECT_TRUE(gpu.usable);
    EXPECT_THAT(gpu.reaches, ElementsAre(true, true, true));
  }
  EXPECT_EQ(machine.calls("cudaSetDevice"), 0);
  EXPECT_EQ(machine.Verdict(), "");
}

TEST(Info, NoDriver) {
  const Info info = Look();
  EXPECT_EQ(info.runtime, "13.0");
  EXPECT_EQ(info.driver, "");
  EXPECT_EQ(info.why_no_gpu, "no NVIDIA driver");
  EXPECT_TRUE(info.gpus.empty());
}

TEST(Info, NoGpu) {
  const fake::Machine machine({.devices = 0});
  const Info info = Look();
  EXPECT_EQ(info.driver, "13.1");
  EXPECT_THAT(info.why_no_gpu, HasSubstr("cudaGetDeviceCount(&count): cudaErrorNoDevice"));
  EXPECT_TRUE(info.gpus.empty());
}

// Of a machine that cannot be told whole nothing is.
TEST(Info, GpuThatDoesNotAnswer) {
  fake::Machine machine({.devices = 2});
  machine.FailCall("cudaDeviceCanAccessPeer", 2, /*cudaErrorDevicesUnavailable*/ 46);
  const Info info = Look();
  EXPECT_THAT(info.why_no_gpu, HasSubstr("cudaDeviceCanAccessPeer"));
  EXPECT_TRUE(info.gpus.empty());
}

TEST(Info, Routes) {
  Info info{.gpus = {{.reaches = {true, true, false}},
                     {.reaches = {true, true, true}},
                     {.reaches = {true, true, true}}},
            .nccl = "2.18.3"};
  constexpr char kStraight[] =
      "AllReduce by kernels over peer pointers up to 1 MiB, by NCCL above; Gather and AllGather "
      "by copies straight into the peer's memory";
  constexpr char kAround[] =
      "AllReduce by NCCL; Gather and AllGather by NCCL and one pass from there into place";
  EXPECT_EQ(RouteBetween(info, 0, 1), kStraight);
  EXPECT_EQ(RouteBetween(info, 2, 1), kStraight);
  EXPECT_EQ(RouteBetween(info, 0, 2), kAround);
  EXPECT_EQ(RouteBetween(info, 2, 0), kAround);
  info.nccl = "";
  EXPECT_EQ(RouteBetween(info, 0, 1),
            "AllReduce by kernels over peer pointers; Gather and AllGather by copies straight into "
            "the peer's memory");
  EXPECT_EQ(RouteBetween(info, 0, 2), "none: neither NCCL nor access to each other's memory");
}

}  // namespace
}  // namespace mp::cuda
