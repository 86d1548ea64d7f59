#include "mp/tensor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mp/base/status.h"

namespace mp {
namespace {

std::string Bracketed(absl::Span<const int64_t> values) {
  return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
}

}  // namespace

Shape::Shape(absl::Span<const int64_t> dims) {
  rank_ = static_cast<int>(std::min<size_t>(dims.size(), kMaxRank));
  bool possible = dims.size() <= kMaxRank;
  bool empty = false;
  for (int i = 0; i < rank_; ++i) {
    const int64_t size = dims[static_cast<size_t>(i)];
    dims_[static_cast<size_t>(i)] = size;
    if (size < 0) possible = false;
    if (size == 0) empty = true;
  }
  // Dimensions multiply to nothing or overflow; a zero among them makes even huge ones harmless
  // only as long as the others' product is a number, so the product skips zeros.
  int64_t product = 1;
  for (const int64_t size : this->dims()) {
    if (size > 0 && __builtin_mul_overflow(product, size, &product)) possible = false;
  }
  elements_ = !possible ? -1 : empty ? 0 : product;
}

int64_t Shape::Product(int begin, int end) const {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= dim(i);
  return product;
}

Shape Shape::With(int i, int64_t size) const {
  std::array<int64_t, kMaxRank> dims = dims_;
  dims[static_cast<size_t>(i)] = size;
  return Shape(absl::MakeConstSpan(dims.data(), static_cast<size_t>(rank_)));
}

std::string Shape::ToString() const { return Bracketed(dims()); }

bool operator==(const Shape& a, const Shape& b) {
  return a.elements_ == b.elements_ && a.dims() == b.dims();
}

absl::StatusOr<TensorView> TensorView::Pitched(void* data, DType dtype, const Shape& shape,
                                               int64_t row_pitch) {
  TensorView view(data, dtype, shape);
  if (shape.ok() && (row_pitch < view.row_bytes() || row_pitch % SizeOf(dtype) != 0)) {
    return InvalidArgument("row pitch ", row_pitch, " bytes of ", DTypeName(dtype),
                           shape.ToString(), ": a row has ", view.row_bytes(),
                           " bytes and the pitch must be at least that and a multiple of ",
                           SizeOf(dtype));
  }
  int64_t bytes = 0;
  if (shape.ok() && __builtin_mul_overflow(std::max<int64_t>(view.rows(), 1), row_pitch, &bytes)) {
    return InvalidArgument("row pitch ", row_pitch, " bytes of ", DTypeName(dtype),
                           shape.ToString(), ": more than 2^63 - 1 bytes");
  }
  view.row_pitch_ = row_pitch;
  return view;
}

absl::StatusOr<TensorView> TensorView::Strided(void* data, DType dtype, const Shape& shape,
                                               absl::Span<const int64_t> strides) {
  const int rank = shape.rank();
  const auto refuse = [&](absl::string_view why) {
    return InvalidArgument("strides ", Bracketed(strides), " of ", DTypeName(dtype),
                           shape.ToString(), ": ", why);
  };
  if (static_cast<int>(strides.size()) != rank) return refuse("one stride for each dimension");
  if (!shape.ok() || rank == 0) return TensorView(data, dtype, shape);
  const auto stride = [&](int i) { return strides[static_cast<size_t>(i)]; };
  if (stride(rank - 1) != 1) return refuse("the last dimension must be contiguous (stride 1)");
  if (rank == 1) return TensorView(data, dtype, shape);
  const int64_t pitch = stride(rank - 2);
  if (pitch < shape.columns()) return refuse("rows overlap");
  for (int i = rank - 3; i >= 0; --i) {
    int64_t expected = 0;
    if (__builtin_mul_overflow(stride(i + 1), shape.dim(i + 1), &expected) ||
        stride(i) != expected) {
      return refuse("rows must be one pitch apart throughout");
    }
  }
  int64_t pitch_bytes = 0;
  if (__builtin_mul_overflow(pitch, SizeOf(dtype), &pitch_bytes)) return refuse("too large");
  return Pitched(data, dtype, shape, pitch_bytes);
}

absl::StatusOr<TensorView> TensorView::Columns(int64_t begin, int64_t size) const {
  if (shape_.rank() == 0) return InvalidArgument("columns of a 0-d tensor");
  if (begin < 0 || size < 0 || begin > shape_.columns() - size) {
    return InvalidArgument("columns [", begin, ", ", begin, " + ", size, ") of ", ToString());
  }
  TensorView view = *this;
  view.shape_ = shape_.With(shape_.rank() - 1, size);
  if (shape_.rank() == 1) view.row_pitch_ = view.row_bytes();  // its only row
  view.data_ = static_cast<char*>(data_) + begin * SizeOf(dtype_);
  return view;
}

int64_t TensorView::extent_bytes() const {
  if (shape_.elements() <= 0) return 0;
  return (rows() - 1) * row_pitch_ + row_bytes();
}

std::string TensorView::ToString() const {
  if (null_) return "none";
  const bool dense = !shape_.ok() || is_dense();
  return absl::StrCat(DTypeName(dtype_), shape_.ToString(),
                      dense ? "" : absl::StrCat(", pitch ", row_pitch_));
}

absl::Status TensorView::Check(absl::string_view what) const {
  if (null_) return InvalidArgument(what, " is missing");
  if (static_cast<int>(dtype_) >= kDTypeCount) {
    return InvalidArgument(what, " has the unknown dtype ", static_cast<int>(dtype_));
  }
  if (!shape_.ok()) {
    return InvalidArgument(what, " has the impossible shape ", shape_.ToString(),
                           ": sizes must not be negative and their product at most 2^63 - 1");
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape_.elements(), SizeOf(dtype_), &bytes)) {
    return InvalidArgument(what, " ", ToString(), " has more than 2^63 - 1 bytes");
  }
  if (data_ == nullptr && bytes != 0) {
    return InvalidArgument(what, " ", ToString(), " has no memory (a null pointer)");
  }
  return absl::OkStatus();
}

}  // namespace mp
