// Which reductions NCCL is given, and what is refused by name; and that a scale is destroyed when
// its group has ended.
#include "mp/cuda/reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fake/machine.h"
#include "tests/support/status_matchers.h"

namespace mp::cuda {
namespace {

using ::mp::test::KindIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

Descriptor Reduction(DType dtype, ReduceOp op, double scale = 1) {
  Descriptor step;
  step.dtype = dtype;
  step.reduce_op = op;
  step.scale = scale;
  step.shape = {1};
  return step;
}

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
constexpr ReduceOp kSums[] = {ReduceOp::kSum, ReduceOp::kAvg};
constexpr ReduceOp kOthers[] = {ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax};

TEST(ScalesFirst, NotWithoutAScaleNorWithOneThatNcclTakes) {
  for (const DType dtype : kFloats) {
    for (const ReduceOp op : kSums) {
      for (const double scale : {1.0, 0.5, -4.0, 0.0, 3.0, 0.125}) {
        EXPECT_FALSE(ScalesFirst(Reduction(dtype, op, scale))) << scale;
      }
    }
    for (const ReduceOp op : kOthers) EXPECT_FALSE(ScalesFirst(Reduction(dtype, op)));
  }
  EXPECT_FALSE(ScalesFirst(Reduction(DType::kF32, ReduceOp::kSum, 0.3)));
  EXPECT_FALSE(ScalesFirst(Reduction(DType::kF64, ReduceOp::kSum, 0.3)));
}

TEST(ScalesFirst, BeforeWhatIsNoSumOrWhereNcclWouldRoundTheScale) {
  for (const DType dtype : kFloats) {
    for (const ReduceOp op : kOthers) EXPECT_TRUE(ScalesFirst(Reduction(dtype, op, 0.5)));
  }
  for (const ReduceOp op : kSums) {
    EXPECT_TRUE(ScalesFirst(Reduction(DType::kF16, op, 0.3)));
    EXPECT_TRUE(ScalesFirst(Reduction(DType::kBF16, op, 0.3)));
    EXPECT_TRUE(ScalesFirst(Reduction(DType::kBF16, op, 257)));
    EXPECT_FALSE(ScalesFirst(Reduction(DType::kF16, op, 257)));
  }
}

TEST(CheckReduction, RefusesAPassBeforeOneSharedOutputByName) {
  Descriptor step = Reduction(DType::kF32, ReduceOp::kMax, 0.5);
  EXPECT_OK(CheckReduction(step));
  step.shared_output = true;
  EXPECT_THAT(CheckReduction(step),
              KindIs(ErrorKind::kUnsupported, AllOf(HasSubstr("max of f32"), HasSubstr("0.5"))));
  step.reduce_op = ReduceOp::kSum;
  EXPECT_OK(CheckReduction(step));
  step.dtype = DType::kF16;
  step.scale = 0.3;
  EXPECT_THAT(CheckReduction(step),
              KindIs(ErrorKind::kUnsupported, AllOf(HasSubstr("sum of f16"), HasSubstr("0.3"))));
}

TEST(NcclType, HasTheSizeOfTheDType) {
  EXPECT_EQ(NcclType(DType::kF32), ncclFloat32);
  EXPECT_EQ(NcclType(DType::kBF16), ncclBfloat16);
  EXPECT_EQ(NcclType(DType::kU8), ncclUint8);
}

TEST(Reductions, MakeAnOperationForAScaleAndDestroyIt) {
  fake::Machine machine({.devices = 1});
  ncclComm_t comm = nullptr;
  const int device = 0;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, &device), ncclSuccess);
  {
    Reductions reductions;
    EXPECT_EQ(*reductions.OpFor(Reduction(DType::kF32, ReduceOp::kMax), comm), ncclMax);
    EXPECT_EQ(*reductions.OpFor(Reduction(DType::kF32, ReduceOp::kSum), comm), ncclSum);
    EXPECT_EQ(*reductions.OpFor(Reduction(DType::kF32, ReduceOp::kAvg), comm), ncclSum);
    EXPECT_EQ(*reductions.OpFor(Reduction(DType::kF32, ReduceOp::kMin, 0.5), comm), ncclMin);
    EXPECT_EQ(*reductions.OpFor(Reduction(DType::kBF16, ReduceOp::kSum, 0.3), comm), ncclSum);
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      EXPECT_GE(*reductions.OpFor(Reduction(dtype, ReduceOp::kSum, 0.5), comm), ncclNumOps);
    }
  }
  EXPECT_EQ(machine.calls("ncclRedOpCreatePreMulSum"), 4);
  EXPECT_EQ(machine.calls("ncclRedOpDestroy"), 4);
  ncclCommDestroy(comm);
  EXPECT_EQ(machine.Verdict(), "");
}

}  // namespace
}  // namespace mp::cuda
