#include "tests/contract/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/contract/backend_under_test.h"

namespace mp::test {
namespace {

constexpr int64_t kGuardBytes = 64;

// Bytes that differ from their neighbours; the pattern comes again after 256 of them.
Bytes Poison(size_t bytes) {
  Bytes poison(bytes);
  const size_t period = std::min<size_t>(bytes, 256);
  for (size_t i = 0; i < period; ++i) poison[i] = static_cast<uint8_t>(0xA5 ^ (i * 151));
  for (size_t at = period; at < bytes; at += period) {
    std::memcpy(&poison[at], poison.data(), std::min(period, bytes - at));
  }
  return poison;
}

// Calls visit(address of a row in the view, its place in the dense tensor, its bytes).
template <typename Visitor>
void ForEachRow(const TensorView& view, const Visitor& visit) {
  if (view.size_bytes() == 0) return;
  const auto bytes = static_cast<size_t>(view.row_bytes());
  for (int64_t row = 0; row < view.rows(); ++row) {
    visit(static_cast<uint8_t*>(view.data()) + row * view.row_pitch(),
          static_cast<size_t>(row) * bytes, bytes);
  }
}

}  // namespace

void WriteElements(const TensorView& view, const Bytes& elements) {
  ForEachRow(view, [&](uint8_t* row, size_t at, size_t bytes) {
    Under().copy_in(row, &elements[at], bytes);
  });
}

Bytes ReadElements(const TensorView& view) {
  Bytes elements(static_cast<size_t>(view.size_bytes()));
  ForEachRow(view, [&](const uint8_t* row, size_t at, size_t bytes) {
    Under().copy_out(&elements[at], row, bytes);
  });
  return elements;
}

Tensor::Tensor(Device& device, DType dtype, const Shape& shape, const Layout& layout) {
  const int64_t pitch = (shape.columns() + layout.gap) * SizeOf(dtype);
  const int64_t rows = shape.Product(0, shape.rank() - 1);
  const int64_t bytes = 2 * kGuardBytes + layout.offset + rows * pitch;
  memory_ = device.Allocate(DType::kU8, {bytes}).value();
  char* first = static_cast<char*>(memory_.data()) + kGuardBytes + layout.offset;
  view_ = TensorView::Pitched(first, dtype, shape, pitch).value();
  filled_ = Poison(static_cast<size_t>(bytes));
  Under().copy_in(memory_.data(), filled_.data(), filled_.size());
}

void Tensor::Fill(const TensorView& part, const Bytes& elements) {
  ASSERT_EQ(static_cast<size_t>(part.size_bytes()), elements.size());
  WriteElements(part, elements);
  filled_ = Image();
}

Bytes Tensor::Elements() const { return ReadElements(view_); }

Bytes Tensor::Image() const {
  Bytes image(static_cast<size_t>(memory_.view().size_bytes()));
  Under().copy_out(image.data(), memory_.data(), image.size());
  return image;
}

void Tensor::ExpectUntouched(const std::string& what) const {
  EXPECT_EQ(FirstDifference(DType::kU8, Image(), filled_, false), "")
      << what << " " << view_.ToString() << " was written to: bytes, the guard of " << kGuardBytes
      << " included";
}

void Tensor::ExpectElements(const Bytes& elements, const std::string& what, bool nan_alike) const {
  const std::string where = absl::StrCat(what, " ", view_.ToString());
  EXPECT_EQ(FirstDifference(view_.dtype(), Elements(), elements, nan_alike), "") << where;
  Bytes around = Image();
  const auto* base = static_cast<const uint8_t*>(memory_.data());
  ForEachRow(view_, [&](const uint8_t* row, size_t, size_t bytes) {
    const auto begin = static_cast<size_t>(row - base);
    std::copy_n(&filled_[begin], bytes, &around[begin]);
  });
  EXPECT_EQ(FirstDifference(DType::kU8, around, filled_, false), "")
      << where << ": memory outside it was written to";
}

}  // namespace mp::test
