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

TEST(CheckReduction, PassesWhatNcclDefinesAsMpDoes) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                              DType::kU8, DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
      EXPECT_OK(CheckReduction(Reduction(dtype, op)));
    }
  }
  for (const double scale : {0.5, -4.0, 0.0, 3.0, 0.125}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      EXPECT_OK(CheckReduction(Reduction(dtype, ReduceOp::kSum, scale)));
    }
  }
  EXPECT_OK(CheckReduction(Reduction(DType::kF32, ReduceOp::kSum, 0.3)));
}

TEST(CheckReduction, RefusesTheRestByName) {
  EXPECT_THAT(CheckReduction(Reduction(DType::kF16, ReduceOp::kAvg)),
              KindIs(ErrorKind::kUnsupported, AllOf(HasSubstr("avg"), HasSubstr("f16"))));
  EXPECT_THAT(CheckReduction(Reduction(DType::kF32, ReduceOp::kMax, 0.5)),
              KindIs(ErrorKind::kUnsupported, AllOf(HasSubstr("max"), HasSubstr("0.5"))));
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_THAT(CheckReduction(Reduction(dtype, ReduceOp::kSum, 0.3)),
                KindIs(ErrorKind::kUnsupported, HasSubstr("0.3")));
  }
  EXPECT_THAT(CheckReduction(Reduction(DType::kBF16, ReduceOp::kSum, 257)),
              KindIs(ErrorKind::kUnsupported, HasSubstr("257")));
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
