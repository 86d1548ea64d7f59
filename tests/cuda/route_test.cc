// Which route each step takes, by its kind, size, alignment and what the ranks have.
#include "mp/cuda/route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mp::cuda {
namespace {

using ::testing::HasSubstr;

Descriptor AllReduce(int64_t elements) {
  Descriptor step;
  step.dtype = DType::kF32;
  step.shape = {elements};
  return step;
}

constexpr Reach kBoth = {.nccl = true, .peers = true, .direct = true, .gpus = 8};
constexpr Reach kNcclAlone = {.nccl = true, .peers = true, .direct = false, .gpus = 8};
constexpr Reach kDirectAlone = {.nccl = false, .peers = true, .direct = true, .gpus = 8};
constexpr Reach kApart = {.nccl = true, .peers = false, .direct = false, .gpus = 8};

TEST(RouteOf, NothingIsDoneForNothing) {
  EXPECT_EQ(RouteOf(AllReduce(0), true, kBoth), StepRoute::kNone);
  Descriptor slot;
  slot.kind = OpKind::kAcquireSlot;
  EXPECT_EQ(RouteOf(slot, true, kBoth), StepRoute::kNone);
}

TEST(RouteOf, GathersAreCopies) {
  for (const OpKind kind : {OpKind::kGather, OpKind::kAllGather}) {
    Descriptor step;
    step.kind = kind;
    step.shape = {4, 0};
    step.dim = 1;
    for (const Reach& reach : {kBoth, kNcclAlone, kDirectAlone}) {
      EXPECT_EQ(RouteOf(step, false, reach), StepRoute::kCopy);
    }
    EXPECT_EQ(RouteOf(step, false, kApart), StepRoute::kRelay);
  }
}

TEST(RouteOf, ReductionsGoBySize) {
  const int64_t whole = kWholeFoldBytes / 4;
  const int64_t limit = DirectBytes(8) / 4;
  ASSERT_LT(whole, limit);
  EXPECT_EQ(RouteOf(AllReduce(1), true, kBoth), StepRoute::kFold);
  EXPECT_EQ(RouteOf(AllReduce(whole), true, kBoth), StepRoute::kFold);
  EXPECT_EQ(RouteOf(AllReduce(whole + 1), true, kBoth), StepRoute::kSlicedFold);
  EXPECT_EQ(RouteOf(AllReduce(limit), true, kBoth), StepRoute::kSlicedFold);
  EXPECT_EQ(RouteOf(AllReduce(limit + 1), true, kBoth), StepRoute::kNccl);
  EXPECT_EQ(RouteOf(AllReduce(limit + 1), false, kBoth), StepRoute::kSlicedFold);
  EXPECT_EQ(RouteOf(AllReduce(int64_t{1} << 33), true, kDirectAlone), StepRoute::kSlicedFold);
  EXPECT_EQ(RouteOf(AllReduce(1), true, kNcclAlone), StepRoute::kNccl);
  EXPECT_EQ(RouteOf(AllReduce(1), true, kApart), StepRoute::kNccl);
}

TEST(RouteOf, OneGpuFoldsAllOfIt) {
  EXPECT_EQ(RouteOf(AllReduce(int64_t{1} << 33), true, {.peers = true, .direct = true, .gpus = 1}),
            StepRoute::kFold);
}

TEST(RouteOf, TheLimitMayBeAnother) {
  Reach reach = kBoth;
  reach.direct_bytes = 0;
  EXPECT_EQ(RouteOf(AllReduce(1), true, reach), StepRoute::kNccl);
  reach.direct_bytes = 8;
  EXPECT_EQ(RouteOf(AllReduce(2), true, reach), StepRoute::kFold);
  EXPECT_EQ(RouteOf(AllReduce(3), true, reach), StepRoute::kNccl);
}

TEST(DirectBytes, IsLessTheMoreGpusThereAre) {
  for (int gpus = 2; gpus < 20; ++gpus) {
    EXPECT_GE(DirectBytes(gpus), DirectBytes(gpus + 1)) << gpus;
    EXPECT_GE(DirectBytes(gpus), kWholeFoldBytes) << gpus;
  }
}

TEST(Describe, SaysWhatIsUsed) {
  EXPECT_THAT(Describe(kBoth), HasSubstr("up to 256 KiB"));
  EXPECT_THAT(Describe(kNcclAlone), HasSubstr("AllReduce by NCCL; Gather and AllGather by copies"));
  EXPECT_THAT(Describe(kApart), HasSubstr("Gather and AllGather by NCCL"));
  EXPECT_THAT(Describe(kDirectAlone), HasSubstr("by kernels over peer pointers; Gather"));
  Reach reach = kBoth;
  reach.direct_bytes = 100;
  EXPECT_THAT(Describe(reach), HasSubstr("up to 100 bytes"));
}

}  // namespace
}  // namespace mp::cuda
