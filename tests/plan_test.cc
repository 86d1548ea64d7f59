// Shows that one rank's arguments become its plan field by field, and that each refusal has its
// kind and the values found (SIZ-5, SIZ-7, LAY-2 to LAY-5, NUM-8, MIS-4).  The pointers are made
// up: nothing is read, so that sizes no memory has are tried too.

#include "mp/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = ErrorKind::kInvalidArgument;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

void* At(int64_t address) { return reinterpret_cast<void*>(static_cast<intptr_t>(address)); }

TensorView Dense(int64_t address, const Shape& shape, DType dtype = DType::kF32) {
  return TensorView(At(address), dtype, shape);
}
TensorView Pitched(int64_t address, const Shape& shape, int64_t pitch, DType dtype = DType::kF32) {
  return TensorView::Pitched(At(address), dtype, shape, pitch).value();
}

std::vector<DType> Types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

// --- the dimension -------------------------------------------------------------------------------

TEST(NormalizeDim, CountsFromBothEnds) {
  const Shape shapes[] = {Shape{2}, Shape{2, 3}, Shape{1, 1, 1, 1, 1, 1, 1, 1}};
  for (const Shape& shape : shapes) {
    const TensorView view = Dense(0x100, shape);
    const int rank = shape.rank();
    for (int dim = 0; dim < rank; ++dim) {
      EXPECT_EQ(NormalizeDim(dim, view).value(), dim);
      EXPECT_EQ(NormalizeDim(dim - rank, view).value(), dim);
    }
    for (const int dim :
         {rank, -rank - 1, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
      EXPECT_THAT(NormalizeDim(dim, view),
                  KindIs(kInvalid, absl::StrCat("dim ", dim, " of ", view.ToString(),
                                                ": must be in ", -rank, "..", rank - 1)));
    }
  }
}

TEST(NormalizeDim, NeedsADimension) {
  for (const int dim : {-1, 0, 1}) {
    EXPECT_THAT(NormalizeDim(dim, Dense(0x100, {})),
                KindIs(kInvalid, "a gather needs >= 1 dimension, f32[] has none"));
  }
}

// --- AllReduce -----------------------------------------------------------------------------------

TEST(PlanAllReduce, SaysWhatIsPosted) {
  ASSERT_OK_AND_ASSIGN(
      const Plan plan,
      PlanAllReduce(Dense(0x100, {2, 3}, DType::kBF16), Dense(0x200, {2, 3}, DType::kBF16),
                    {.op = ReduceOp::kMax, .scale = 0.5, .shared_output = true}));
  EXPECT_EQ(plan.descriptor.kind, OpKind::kAllReduce);
  EXPECT_EQ(plan.descriptor.dtype, DType::kBF16);
  EXPECT_EQ(plan.descriptor.reduce_op, ReduceOp::kMax);
  EXPECT_TRUE(plan.descriptor.shared_output);
  EXPECT_EQ(plan.descriptor.root, -1);
  EXPECT_EQ(plan.descriptor.dim, -1);
  EXPECT_EQ(plan.descriptor.scale, 0.5);
  EXPECT_EQ(plan.descriptor.shape, Shape({2, 3}));
  EXPECT_EQ(plan.part.input, At(0x100));
  EXPECT_EQ(plan.part.output, At(0x200));
}

TEST(PlanAllReduce, TakesEveryReducibleTypeAndOp) {
  for (const DType dtype : Types()) {
    for (int i = 0; i < kReduceOpCount; ++i) {
      for (const double scale : {1.0, 0.5}) {
        const auto op = static_cast<ReduceOp>(i);
        const TensorView x = Dense(0x100, {4}, dtype);
        const auto plan = PlanAllReduce(x, x, {.op = op, .scale = scale});
        const std::string name(DTypeName(dtype));
        if (!IsReducible(dtype)) {
          EXPECT_THAT(plan, KindIs(ErrorKind::kUnsupported,
                                   absl::StrCat("AllReduce of ", name,
                                                ": f32, f64, f16, bf16, i8, u8, i32, u32, i64 and "
                                                "u64 can be reduced, ",
                                                name, " can only be gathered")));
        } else if (!IsReducibleFloat(dtype) && op == ReduceOp::kAvg) {
          EXPECT_THAT(plan, KindIs(ErrorKind::kUnsupported,
                                   absl::StrCat("AllReduce avg of ", name,
                                                ": the average is "
                                                "defined for f32, f64, f16 and bf16")));
        } else if (!IsReducibleFloat(dtype) && scale != 1.0) {
          EXPECT_THAT(plan, KindIs(ErrorKind::kUnsupported,
                                   absl::StrCat("AllReduce of ", name,
                                                " with scale 0.5: a scale "
                                                "is defined for f32, f64, f16 and bf16")));
        } else {
          EXPECT_OK(plan) << name << ReduceOpName(op);
        }
      }
    }
  }
}

TEST(PlanAllReduce, WantsOneShapeAndType) {
  const TensorView x = Dense(0x1000, {2, 3});
  for (const TensorView& output : {Dense(0x2000, {3, 2}), Dense(0x2000, {6}), Dense(0x2000, {2, 4}),
                                   Dense(0x2000, {2, 3, 1}), Dense(0x2000, {2, 3}, DType::kI32)}) {
    EXPECT_THAT(PlanAllReduce(x, output, {}),
                KindIs(kInvalid, absl::StrCat("AllReduce: the input is f32[2, 3], the output ",
                                              output.ToString())));
  }
}

TEST(PlanAllReduce, WantsSoundViews) {
  const TensorView x = Dense(0x1000, {2, 3});
  const TensorView none, null = Dense(0, {2, 3}), negative = Dense(0x2000, {2, -3});
  const struct {
    TensorView view;
    const char* text;
  } cases[] = {
      {none, " is missing"},
      {null, " f32[2, 3] has no memory (a null pointer)"},
      {negative, " has the impossible shape [2, -3]"},
      {Dense(0x2000, {kMost, 2}), " has the impossible shape [9223372036854775807, 2]"},
      {Dense(0x2000, {kMost / 2}), " f32[4611686018427387903] has more than 2^63 - 1 bytes"},
  };
  for (const auto& [view, text] : cases) {
    EXPECT_THAT(PlanAllReduce(view, x, {}),
                KindIs(kInvalid, HasSubstr(absl::StrCat("AllReduce: the input", text))));
    EXPECT_THAT(PlanAllReduce(x, view, {}),
                KindIs(kInvalid, HasSubstr(absl::StrCat("AllReduce: the output", text))));
  }
}

TEST(PlanAllReduce, WantsDenseTensors) {
  const TensorView x = Dense(0x1000, {2, 3}), gaps = Pitched(0x2000, {2, 3}, 16);
  const std::string text = " f32[2, 3], pitch 16 is not dense (rows of 12 bytes, 16 apart)";
  EXPECT_THAT(PlanAllReduce(gaps, x, {}), KindIs(kInvalid, HasSubstr("the input" + text)));
  EXPECT_THAT(PlanAllReduce(x, gaps, {}), KindIs(kInvalid, HasSubstr("the output" + text)));
  // One row has no gap, and the same verdict as two.
  EXPECT_THAT(PlanAllReduce(Pitched(0x1000, {1, 3}, 16), Dense(0x2000, {1, 3}), {}),
              KindIs(kInvalid, HasSubstr("the input f32[1, 3], pitch 16 is not dense")));
}

TEST(PlanAllReduce, InAndOutAreOneOrApart) {
  const TensorView x = Dense(0x1000, {2, 3});
  for (const int64_t apart : {-64, -24, 0, 24, 64}) {
    EXPECT_OK(PlanAllReduce(x, Dense(0x1000 + apart, {2, 3}), {}));
  }
  for (const int64_t shift : {-23, -4, 4, 23}) {
    EXPECT_THAT(PlanAllReduce(x, Dense(0x1000 + shift, {2, 3}), {}),
                KindIs(kInvalid, AllOf(HasSubstr("the output overlaps the input"),
                                       HasSubstr(absl::StrCat(" ", shift, " bytes")))));
  }
}

TEST(PlanAllReduce, TakesWhatIsEmptyAndWhatIsHuge) {
  EXPECT_OK(PlanAllReduce(Dense(0, {0}), Dense(0, {0}), {}));
  EXPECT_OK(PlanAllReduce(Dense(0, {3, 0, 2}), Dense(0x1000, {3, 0, 2}), {}));
  EXPECT_OK(PlanAllReduce(Dense(0x1000, {}), Dense(0x1004, {}), {}));
  constexpr int64_t kHuge = int64_t{1} << 40;  // 4 TiB of f32
  ASSERT_OK_AND_ASSIGN(const Plan plan, PlanAllReduce(Dense(0x1000, {kHuge}),
                                                      Dense(0x1000 + 4 * kHuge, {kHuge}), {}));
  EXPECT_EQ(plan.descriptor.shape.elements(), kHuge);
  EXPECT_THAT(PlanAllReduce(Dense(0x1000, {kHuge}), Dense(0xffc + 4 * kHuge, {kHuge}), {}),
              KindIs(kInvalid, HasSubstr(absl::StrCat(4 * kHuge - 4))));
}

// --- gathers -------------------------------------------------------------------------------------

constexpr int kAll = -1;  // the root of an AllGather

TEST(PlanGather, SaysWhatIsPosted) {
  const TensorView shard = Pitched(0x1000, {2, 3, 5}, 32), output = Pitched(0x2000, {2, 9, 5}, 64);
  for (const int dim : {1, -2}) {
    ASSERT_OK_AND_ASSIGN(const Plan plan, PlanGather(shard, output, 2, 4, true, {.dim = dim}));
    EXPECT_EQ(plan.descriptor.kind, OpKind::kGather);
    EXPECT_EQ(plan.descriptor.dtype, DType::kF32);
    EXPECT_EQ(plan.descriptor.root, 2);
    EXPECT_EQ(plan.descriptor.dim, 1);
    EXPECT_EQ(plan.descriptor.scale, 1.0);
    EXPECT_FALSE(plan.descriptor.shared_output);
    EXPECT_EQ(plan.descriptor.shape, Shape({2, 0, 5}));
    EXPECT_EQ(plan.part.input, At(0x1000));
    EXPECT_EQ(plan.part.input_pitch, 32);
    EXPECT_EQ(plan.part.input_extent, 3);
    EXPECT_EQ(plan.part.output, At(0x2000));
    EXPECT_EQ(plan.part.output_pitch, 64);
    EXPECT_EQ(plan.part.output_extent, 9);
  }
  ASSERT_OK_AND_ASSIGN(const Plan all, PlanGather(shard, Dense(0x2000, {2, 3, 7}), kAll, 4, true,
                                                  {.shared_output = true}));
  EXPECT_EQ(all.descriptor.kind, OpKind::kAllGather);
  EXPECT_EQ(all.descriptor.root, -1);
  EXPECT_EQ(all.descriptor.dim, 2);
  EXPECT_TRUE(all.descriptor.shared_output);
  EXPECT_EQ(all.part.output_extent, 7);
}

TEST(PlanGather, LooksAtTheOutputWhereItIsReceivedOnly) {
  const TensorView shard = Dense(0x1000, {2, 3}), wrong = Dense(0x2000, {9}, DType::kI8), none;
  for (const TensorView& output : {wrong, none}) {
    ASSERT_OK_AND_ASSIGN(const Plan plan, PlanGather(shard, output, 0, 2, false, {}));
    EXPECT_EQ(plan.part.output, nullptr);
    EXPECT_EQ(plan.part.output_extent, 0);
    EXPECT_THAT(PlanGather(shard, output, 0, 2, true, {}), KindIs(kInvalid));
  }
  EXPECT_THAT(PlanGather(shard, none, 0, 2, true, {}),
              KindIs(kInvalid, "Gather: the output is missing"));
  EXPECT_THAT(PlanGather(shard, none, kAll, 2, true, {}),
              KindIs(kInvalid, "AllGather: the output is missing"));
}

TEST(PlanGather, MovesEveryType) {
  for (const DType dtype : Types()) {
    EXPECT_OK(
        PlanGather(Dense(0x1000, {2, 3}, dtype), Dense(0x2000, {2, 6}, dtype), 0, 2, true, {}))
        << DTypeName(dtype);
  }
}

TEST(PlanGather, HasARootInTheRegion) {
  const TensorView shard = Dense(0x1000, {2, 3}), output = Dense(0x2000, {2, 9});
  for (const int root : {0, 1, 2}) EXPECT_OK(PlanGather(shard, output, root, 3, true, {}));
  for (const int root : {3, 4, std::numeric_limits<int>::max()}) {
    EXPECT_THAT(PlanGather(shard, output, root, 3, false, {}),
                KindIs(kInvalid, absl::StrCat("Gather: root ", root, " of a Region of 3 ranks")));
  }
}

TEST(PlanGather, HasADimension) {
  EXPECT_THAT(PlanGather(Dense(0x1000, {}), Dense(0x2000, {2}), 0, 2, true, {}),
              KindIs(kInvalid, HasSubstr("needs >= 1 dimension")));
  EXPECT_THAT(PlanGather(Dense(0x1000, {2, 3}), Dense(0x2000, {2, 6}), 0, 2, true, {.dim = 2}),
              KindIs(kInvalid, "dim 2 of f32[2, 3]: must be in -2..1"));
}

TEST(PlanGather, ShardAndOutputDifferInTheDimensionOnly) {
  const TensorView shard = Dense(0x1000, {2, 3});
  for (const TensorView& output :
       {Dense(0x2000, {3, 6}), Dense(0x2000, {12}), Dense(0x2000, {2, 6, 1}),
        Dense(0x2000, {2, 6}, DType::kI32), Dense(0x2000, {4, 3})}) {
    for (const int root : {kAll, 0}) {
      EXPECT_THAT(
          PlanGather(shard, output, root, 2, true, {}),
          KindIs(kInvalid, absl::StrCat(root < 0 ? "AllGather" : "Gather",
                                        ": the shard is f32[2, 3], the output ", output.ToString(),
                                        "; they may differ in dimension 1 only")));
    }
  }
  EXPECT_OK(PlanGather(shard, Dense(0x2000, {4, 3}), 0, 2, true, {.dim = 0}));
  EXPECT_THAT(PlanGather(shard, Dense(0x2000, {2, 2}), 0, 2, true, {}),
              KindIs(kInvalid, "Gather: the output f32[2, 2] is smaller than the shard f32[2, 3]"));
}

TEST(PlanGather, WantsSoundViews) {
  const TensorView shard = Dense(0x1000, {2, 3}), output = Dense(0x2000, {2, 6}), none;
  EXPECT_THAT(PlanGather(none, output, 0, 2, true, {}),
              KindIs(kInvalid, "Gather: the shard is missing"));
  EXPECT_THAT(PlanGather(Dense(0, {2, 3}), output, kAll, 2, true, {}),
              KindIs(kInvalid, "AllGather: the shard f32[2, 3] has no memory (a null pointer)"));
  EXPECT_THAT(PlanGather(Dense(0x1000, {2, -3}), output, 0, 2, true, {}),
              KindIs(kInvalid, HasSubstr("the shard has the impossible shape [2, -3]")));
  EXPECT_THAT(PlanGather(shard, Dense(0, {2, 6}), 0, 2, true, {}),
              KindIs(kInvalid, "Gather: the output f32[2, 6] has no memory (a null pointer)"));
  EXPECT_THAT(PlanGather(shard, Dense(0x2000, {2, kMost}), 0, 2, true, {}),
              KindIs(kInvalid, HasSubstr("[2, 9223372036854775807]")));
}

TEST(PlanGather, TakesWhatIsEmptyAndWhatIsHuge) {
  EXPECT_OK(PlanGather(Dense(0, {2, 0}), Dense(0x2000, {2, 6}), 0, 2, true, {}));
  EXPECT_OK(PlanGather(Dense(0, {0, 3}), Dense(0, {0, 6}), 0, 2, true, {}));
  EXPECT_OK(PlanGather(Dense(0, {2, 0}), Dense(0, {2, 0}), kAll, 2, true, {}));
  constexpr int64_t kRows = int64_t{1} << 33, kColumns = int64_t{1} << 20;
  ASSERT_OK_AND_ASSIGN(const Plan plan,
                       PlanGather(Dense(0x1000, {kRows, kColumns}),
                                  Dense(0x2000, {kRows, 2 * kColumns}), 0, 2, true, {}));
  EXPECT_EQ(plan.part.input_extent, kColumns);
  EXPECT_EQ(plan.part.input_pitch, 4 * kColumns);
  EXPECT_EQ(plan.part.output_extent, 2 * kColumns);
  EXPECT_EQ(LayoutOf(plan.descriptor).outer, kRows);
}

}  // namespace
}  // namespace mp::test
