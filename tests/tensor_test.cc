// Shapes and views as values: what can be is computed exactly, what cannot be says so.  LAY-2:
// every layout but rows with one pitch is refused by name, whatever the number of rows.

#include "mp/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace mp::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr auto kInvalid = ErrorKind::kInvalidArgument;

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().columns(), 1);
  EXPECT_EQ(Shape({7}).elements(), 7);
  EXPECT_EQ(Shape({2, 3, 4}).elements(), 24);
  EXPECT_EQ(Shape({2, 3, 4}).columns(), 4);
  EXPECT_EQ(Shape({2, 0, 4}).elements(), 0);
  EXPECT_EQ(Shape({2, 3, 4}).dim(1), 3);
  EXPECT_THAT(Shape({2, 3, 4}).dims(), ElementsAre(2, 3, 4));
  EXPECT_EQ(Shape({2, 3, 4}).Product(0, 2), 6);
  EXPECT_EQ(Shape({2, 3, 4}).Product(1, 1), 1);
  EXPECT_EQ(Shape({2, 3, 4}).With(1, 9), Shape({2, 9, 4}));
  EXPECT_EQ(Shape({1, 2, 3, 4, 5, 6, 7, 8}).rank(), Shape::kMaxRank);
  EXPECT_EQ(Shape({kMax}).elements(), kMax);
  EXPECT_EQ(Shape({kMax, 1, 0}).elements(), 0);
}

TEST(Shape, ThatCannotBeSaysSo) {
  for (const Shape& shape :
       {Shape{-1}, Shape{2, -3}, Shape{0, -1}, Shape{kMax, 2},
        Shape{int64_t{1} << 32, int64_t{1} << 31}, Shape{int64_t{1} << 32, int64_t{1} << 32},
        Shape{kMax, 0, kMax}, Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    EXPECT_FALSE(shape.ok()) << shape.ToString();
    EXPECT_EQ(shape.elements(), -1) << shape.ToString();
  }
  EXPECT_TRUE(Shape({int64_t{1} << 32, (int64_t{1} << 31) - 1}).ok());
  EXPECT_EQ(Shape({2, -3}).ToString(), "[2, -3]");
}

TEST(Shape, IsComparedByItsDimensions) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({2, 3}), Shape({6}));
  EXPECT_NE(Shape({1}), Shape());
  EXPECT_NE(Shape({1, 2}), Shape({1, 2, 1}));
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ(Shape({2, 3}).ToString(), "[2, 3]");
}

TEST(TensorView, OfNothingIsNull) {
  const TensorView none;
  EXPECT_TRUE(none.is_null());
  EXPECT_EQ(none.ToString(), "none");
  EXPECT_THAT(none.Check("x"), KindIs(kInvalid, HasSubstr("x")));
}

TEST(TensorView, DenseHasRowsWithoutGaps) {
  float data[24];
  const TensorView view(data, DType::kF32, {2, 3, 4});
  EXPECT_FALSE(view.is_null());
  EXPECT_TRUE(view.is_dense());
  EXPECT_EQ(view.rows(), 6);
  EXPECT_EQ(view.row_bytes(), 16);
  EXPECT_EQ(view.row_pitch(), 16);
  EXPECT_EQ(view.size_bytes(), 96);
  EXPECT_EQ(view.extent_bytes(), 96);
  EXPECT_EQ(view.ToString(), "f32[2, 3, 4]");
  EXPECT_OK(view.Check("x"));
  const TensorView number(data, DType::kF32, {});
  EXPECT_EQ(number.rows(), 1);
  EXPECT_EQ(number.size_bytes(), 4);
  EXPECT_TRUE(number.is_dense());
}

TEST(TensorView, PitchedHasGapsBetweenRows) {
  float data[24];
  ASSERT_OK_AND_ASSIGN(const TensorView view, TensorView::Pitched(data, DType::kF32, {3, 2}, 20));
  EXPECT_FALSE(view.is_dense());
  EXPECT_EQ(view.row_bytes(), 8);
  EXPECT_EQ(view.size_bytes(), 24);
  EXPECT_EQ(view.extent_bytes(), 48);  // 20 + 20 + 8
  EXPECT_EQ(view.ToString(), "f32[3, 2], pitch 20");
  ASSERT_OK_AND_ASSIGN(const TensorView tight, TensorView::Pitched(data, DType::kF32, {3, 2}, 8));
  EXPECT_TRUE(tight.is_dense());
  ASSERT_OK_AND_ASSIGN(const TensorView empty, TensorView::Pitched(data, DType::kF32, {0, 2}, 20));
  EXPECT_EQ(empty.extent_bytes(), 0);
  for (const int64_t pitch : {0, 4, 7, 9, 22, -20}) {
    EXPECT_THAT(TensorView::Pitched(data, DType::kF32, {3, 2}, pitch).status(),
                KindIs(kInvalid, AllOf(HasSubstr("pitch"), HasSubstr(absl::StrCat(pitch)))));
  }
  EXPECT_THAT(TensorView::Pitched(data, DType::kF32, {3, 2}, kMax / 4 * 4).status(),
              KindIs(kInvalid));
}

TEST(TensorView, StridedIsRowsWithOnePitch) {
  float data[64];
  const auto strided = [&](const Shape& shape, const std::vector<int64_t>& strides) {
    return TensorView::Strided(data, DType::kF32, shape, strides);
  };
  ASSERT_OK_AND_ASSIGN(const TensorView dense, strided({2, 3}, {3, 1}));
  EXPECT_TRUE(dense.is_dense());
  ASSERT_OK_AND_ASSIGN(const TensorView pitched, strided({2, 3}, {7, 1}));
  EXPECT_EQ(pitched.row_pitch(), 28);
  ASSERT_OK_AND_ASSIGN(const TensorView deep, strided({2, 4, 3}, {20, 5, 1}));
  EXPECT_EQ(deep.row_pitch(), 20);
  EXPECT_OK(strided({5}, {1}));
  EXPECT_OK(strided({}, {}));
}

TEST(Lay2, OtherStridesAreRefusedByNameWhateverTheNumberOfRows) {
  float data[64];
  for (const int64_t rows : {1, 2, 3}) {
    const auto refused = [&](const Shape& shape, const std::vector<int64_t>& strides) {
      SCOPED_TRACE(shape.ToString());
      EXPECT_THAT(TensorView::Strided(data, DType::kF32, shape, strides).status(),
                  KindIs(kInvalid, AllOf(HasSubstr("strides"), HasSubstr(shape.ToString()))));
    };
    refused({rows, 3}, {1, rows});       // a transpose
    refused({rows, 3}, {6, 2});          // every second column
    refused({rows, 1}, {8, 8});          // a column, as others describe it
    refused({rows, 3}, {0, 1});          // one row again and again
    refused({rows, 3}, {3, 0});          // one element again and again
    refused({rows, 3}, {2, 1});          // rows that overlap
    refused({rows, 3}, {-3, 1});         // backwards
    refused({2, rows, 3}, {100, 5, 1});  // two pitches
    refused({rows, 3}, {1});             // a stride too few
    refused({rows, 3}, {9, 3, 1});       // a stride too many
    refused({rows, 3}, {kMax, 1});       // beyond memory
  }
  EXPECT_THAT(TensorView::Strided(data, DType::kF32, {5}, {2}).status(), KindIs(kInvalid));
}

TEST(TensorView, ColumnsArePartOfTheRows) {
  int32_t data[2 * 7];
  const TensorView whole(data, DType::kI32, {2, 7});
  ASSERT_OK_AND_ASSIGN(const TensorView part, whole.Columns(2, 3));
  EXPECT_EQ(part.data(), data + 2);
  EXPECT_EQ(part.shape(), Shape({2, 3}));
  EXPECT_EQ(part.row_pitch(), 28);
  ASSERT_OK_AND_ASSIGN(const TensorView inner, part.Columns(1, 1));
  EXPECT_EQ(inner.data(), data + 3);
  EXPECT_EQ(inner.row_pitch(), 28);
  ASSERT_OK_AND_ASSIGN(const TensorView none, whole.Columns(7, 0));
  EXPECT_EQ(none.shape(), Shape({2, 0}));
  for (const auto& [begin, size] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 2}, {0, 8}, {7, 1}, {8, 0}, {0, -1}, {kMax, 1}, {1, kMax}, {kMax, kMax}}) {
    EXPECT_THAT(whole.Columns(begin, size).status(), KindIs(kInvalid)) << begin << " " << size;
  }
  EXPECT_THAT(TensorView(data, DType::kI32, {}).Columns(0, 1).status(), KindIs(kInvalid));
}

TEST(TensorView, CheckNamesWhatIsWrong) {
  float data[6];
  EXPECT_OK(TensorView(nullptr, DType::kF32, {0, 3}).Check("x"));
  EXPECT_OK(TensorView(nullptr, DType::kF32, {3, 0}).Check("x"));
  EXPECT_THAT(TensorView(nullptr, DType::kF32, {2, 3}).Check("the input"),
              KindIs(kInvalid, AllOf(HasSubstr("the input"), HasSubstr("f32[2, 3]"))));
  EXPECT_THAT(TensorView(data, DType::kF32, {-2, 3}).Check("x"),
              KindIs(kInvalid, HasSubstr("[-2, 3]")));
  EXPECT_THAT(TensorView(data, DType::kF32, {kMax / 2}).Check("x"),
              KindIs(kInvalid, HasSubstr(absl::StrCat(kMax / 2))));
  EXPECT_OK(TensorView(data, DType::kU8, {kMax}).Check("x"));
}

}  // namespace
}  // namespace mp::test
