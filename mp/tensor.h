// Shapes, and views of memory that somebody else owns.
//
//   float data[6];
//   mp::TensorView dense(data, mp::DType::kF32, {2, 3});
//   auto columns = mp::TensorView::Pitched(data, mp::DType::kF32, {2, 2}, 3 * sizeof(float));
//
// A view is a pointer, an element type, a shape and one row pitch: rows (the last dimension) are
// contiguous, and from one row to the next it is `row_pitch` bytes.  Dense is the special case in
// which the pitch is the row.  Any other layout is refused by name (TensorView::Strided).
//
// Ownership. A view owns nothing and is copied freely.  Threads. Values.
#ifndef MP_TENSOR_H_
#define MP_TENSOR_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mp/dtype.h"

namespace mp {

// The sizes of a tensor's dimensions, outermost first; at most kMaxRank of them.  A shape that
// cannot be (a negative size, a product beyond 2^63 - 1, too many dimensions) is kept as it was
// given and says so in ok(); no operation takes it.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;  // 0-d: one element
  Shape(std::initializer_list<int64_t> dims)
      : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t dim(int i) const { return dims_[static_cast<size_t>(i)]; }
  absl::Span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  bool ok() const { return elements_ >= 0; }
  // The number of elements; -1 where the shape is not ok().
  int64_t elements() const { return elements_; }
  // The size of the last dimension; 1 for 0-d.
  int64_t columns() const { return rank_ == 0 ? 1 : dim(rank_ - 1); }
  // The product of the dimensions from `begin` up to `end`; 1 for an empty range.
  int64_t Product(int begin, int end) const;
  // The shape with dimension `i` replaced.
  Shape With(int i, int64_t size) const;

  // "[2, 3]".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b);
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int64_t elements_ = 1;
  int rank_ = 0;
};

class TensorView {
 public:
  // No tensor: what a rank gives as output where it has none.
  TensorView() = default;
  // A dense tensor in row-major order.
  TensorView(void* data, DType dtype, const Shape& shape)
      : data_(data), shape_(shape), dtype_(dtype), null_(false) {
    // What is too large is kept as it is, for Check to refuse.
    if (__builtin_mul_overflow(shape.columns(), SizeOf(dtype), &row_pitch_)) row_pitch_ = 0;
  }

  // Rows of shape.columns() elements, `row_pitch` bytes apart.
  // InvalidArgument: the pitch is less than a row or no multiple of the element.
  static absl::StatusOr<TensorView> Pitched(void* data, DType dtype, const Shape& shape,
                                            int64_t row_pitch);

  // The view that `strides` (in elements, one for each dimension) describe.  They are checked for
  // dimensions of size 1 too, so that a layout is accepted or refused whatever the sizes are.
  // InvalidArgument, with the strides: the last dimension is not contiguous, or the rows are not
  // one pitch apart throughout (columns, steps, transposes, broadcasts).
  static absl::StatusOr<TensorView> Strided(void* data, DType dtype, const Shape& shape,
                                            absl::Span<const int64_t> strides);

  // Columns [begin, begin + size) of the last dimension, without a copy.
  // InvalidArgument: the range is not inside the dimension, or the view is 0-d.
  absl::StatusOr<TensorView> Columns(int64_t begin, int64_t size) const;

  bool is_null() const { return null_; }
  void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  // Bytes from one row to the next.
  int64_t row_pitch() const { return row_pitch_; }
  int64_t row_bytes() const {
    int64_t bytes = 0;
    return __builtin_mul_overflow(shape_.columns(), SizeOf(dtype_), &bytes) ? 0 : bytes;
  }
  // The product of all dimensions but the last.
  int64_t rows() const { return shape_.Product(0, shape_.rank() - 1); }
  bool is_dense() const { return row_pitch_ == row_bytes(); }
  // Bytes of the elements, gaps between rows not counted.
  int64_t size_bytes() const { return shape_.elements() * SizeOf(dtype_); }
  // Bytes from the first element to behind the last one, gaps included; 0 for an empty tensor.
  int64_t extent_bytes() const;

  // "f32[2, 3]", with ", pitch 16" where it is not dense; "none" for a null view.
  std::string ToString() const;

  // OK where the shape can be, its bytes fit 2^63 - 1, and there is memory behind it unless it is
  // empty.  `what` names the view in the message.
  absl::Status Check(absl::string_view what) const;

 private:
  void* data_ = nullptr;
  int64_t row_pitch_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
  bool null_ = true;
};

}  // namespace mp

#endif  // MP_TENSOR_H_
