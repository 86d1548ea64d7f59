// Shows that LayoutOf describes a gather's memory: for every small shape and dimension the bytes
// that the layout names, in its order, are the bytes of the tensor's elements in row-major order;
// and that its numbers hold where no memory could.

#include "mp/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace mp::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Descriptor GatherOf(DType dtype, const Shape& shape, int dim) {
  Descriptor descriptor;
  descriptor.kind = OpKind::kAllGather;
  descriptor.dtype = dtype;
  descriptor.dim = dim;
  descriptor.shape = shape.With(dim, 0);
  return descriptor;
}

// The offsets of the bytes of an input with `extent` along dim, as the header reads the layout.
std::vector<int64_t> BytesNamed(const GatherLayout& layout, int64_t extent, int64_t pitch) {
  const int64_t rows = layout.outer * (layout.joins_columns ? 1 : layout.run * extent);
  const int64_t width = layout.row_bytes * (layout.joins_columns ? extent : 1);
  std::vector<int64_t> bytes;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t byte = 0; byte < width; ++byte) bytes.push_back(row * pitch + byte);
  }
  return bytes;
}

// The offsets of all elements' bytes of a view, from its definition.
std::vector<int64_t> BytesOfView(const TensorView& view) {
  std::vector<int64_t> bytes;
  for (int64_t element = 0; element < view.shape().elements(); ++element) {
    const int64_t row = element / view.shape().columns();
    const int64_t column = element % view.shape().columns();
    for (int64_t byte = 0; byte < SizeOf(view.dtype()); ++byte) {
      bytes.push_back(row * view.row_pitch() + column * SizeOf(view.dtype()) + byte);
    }
  }
  return bytes;
}

TEST(LayoutOf, NamesTheBytesOfEveryShape) {
  for (const int64_t a : {1, 2, 3}) {
    for (const int64_t b : {1, 2, 4}) {
      for (const int64_t c : {1, 2, 5}) {
        for (const DType dtype : {DType::kI8, DType::kF16, DType::kC128}) {
          for (const Shape& shape : {Shape{a}, Shape{a, b}, Shape{a, b, c}, Shape{a, b, 2, c}}) {
            const int64_t pitch = (shape.columns() + 1) * SizeOf(dtype);
            const TensorView view = TensorView::Pitched(nullptr, dtype, shape, pitch).value();
            for (int dim = 0; dim < shape.rank(); ++dim) {
              const GatherLayout layout = LayoutOf(GatherOf(dtype, shape, dim));
              EXPECT_EQ(BytesNamed(layout, shape.dim(dim), pitch), BytesOfView(view))
                  << shape.ToString() << " dim " << dim;
              EXPECT_EQ(layout.outer, shape.Product(0, dim));
            }
          }
        }
      }
    }
  }
}

TEST(LayoutOf, NamesNoByteOfAnEmptyTensor) {
  for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 3}, Shape{3, 2, 0},
                             Shape{0, 2, 3}, Shape{0, 0, 0}, Shape{2, 3, 0, 2}}) {
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const GatherLayout layout = LayoutOf(GatherOf(DType::kF32, shape, dim));
      EXPECT_THAT(BytesNamed(layout, shape.dim(dim), 64), IsEmpty())
          << shape.ToString() << " dim " << dim;
    }
  }
}

TEST(LayoutOf, JoinsTheLastDimensionInRowsOfElements) {
  const GatherLayout layout = LayoutOf(GatherOf(DType::kF64, {3, 4, 7}, 2));
  EXPECT_EQ(layout.outer, 12);
  EXPECT_EQ(layout.run, 0);
  EXPECT_EQ(layout.row_bytes, 8);
}

TEST(LayoutOf, JoinsAnEarlierDimensionInBlocksOfRows) {
  const GatherLayout layout = LayoutOf(GatherOf(DType::kBF16, {3, 4, 5, 7}, 1));
  EXPECT_EQ(layout.outer, 3);
  EXPECT_EQ(layout.run, 5);
  EXPECT_EQ(layout.row_bytes, 14);
}

TEST(LayoutOf, HoldsWhereNoMemoryCould) {
  constexpr int64_t kLarge = int64_t{1} << 30;
  const GatherLayout last = LayoutOf(GatherOf(DType::kF32, {kLarge, kLarge, 1}, 2));
  EXPECT_EQ(last.outer, int64_t{1} << 60);
  EXPECT_EQ(last.row_bytes, 4);
  const GatherLayout first = LayoutOf(GatherOf(DType::kF32, {1, kLarge, kLarge}, 0));
  EXPECT_EQ(first.outer, 1);
  EXPECT_EQ(first.run, kLarge);
  EXPECT_EQ(first.row_bytes, int64_t{1} << 32);
}

TEST(Operation, KeepsTheStepsOfABatchApart) {
  Operation operation;
  operation.world_size = 3;
  operation.steps.resize(2);
  operation.parts.resize(6);
  for (int64_t i = 0; i < 6; ++i) operation.parts[static_cast<size_t>(i)].input_extent = i;
  EXPECT_EQ(operation.step_count(), 2);
  const auto extents = [&operation](int step) {
    std::vector<int64_t> found;
    for (const Part& part : operation.step_parts(step)) found.push_back(part.input_extent);
    return found;
  };
  EXPECT_THAT(extents(0), ElementsAre(0, 1, 2));
  EXPECT_THAT(extents(1), ElementsAre(3, 4, 5));
}

TEST(OpKind, HasAName) {
  EXPECT_EQ(OpKindName(OpKind::kAllReduce), "AllReduce");
  EXPECT_EQ(OpKindName(OpKind::kGather), "Gather");
  EXPECT_EQ(OpKindName(OpKind::kAllGather), "AllGather");
  EXPECT_EQ(OpKindName(OpKind::kAcquireSlot), "AcquireSlot");
}

}  // namespace
}  // namespace mp::test
