// Tensors in a device's memory whose every byte is accounted for: elements, the gaps between rows,
// and 64 guard bytes on both sides.
//
//   Tensor out(world->device(0), DType::kF32, {2, 3}, {.offset = 4, .gap = 1});
//   ... an operation with out.view() ...
//   out.ExpectElements(expected, "output of rank 0");   // and nothing else has changed
#ifndef MP_TESTS_CONTRACT_TENSOR_H_
#define MP_TESTS_CONTRACT_TENSOR_H_

#include <string>

#include "mp/device.h"
#include "mp/tensor.h"
#include "tests/support/numbers.h"

namespace mp::test {

struct Layout {
  int64_t offset = 0;  // bytes before the first element, beyond the guard
  int64_t gap = 0;     // elements between the end of a row and the next row
};

class Tensor {
 public:
  // All of its memory is poison: a pattern that no test fills in.
  Tensor(Device& device, DType dtype, const Shape& shape, const Layout& layout = {});

  const TensorView& view() const { return view_; }

  // Writes dense elements, to the whole or to a view of a part of it.
  void Fill(const Bytes& elements) { Fill(view_, elements); }
  void Fill(const TensorView& part, const Bytes& elements);
  // The elements now, dense.
  Bytes Elements() const;

  // Expects that all memory is as it was made and filled.
  void ExpectUntouched(const std::string& what) const;
  // Expects these elements, and everything around them as it was.  `nan_alike`: any NaN will do
  // where one is expected.
  void ExpectElements(const Bytes& elements, const std::string& what, bool nan_alike = false) const;

 private:
  Bytes Image() const;

  Buffer memory_;
  TensorView view_;
  Bytes filled_;  // the memory as it was made and filled
};

// Moves dense elements to and from any view of device memory.
void WriteElements(const TensorView& view, const Bytes& elements);
Bytes ReadElements(const TensorView& view);

}  // namespace mp::test

#endif  // MP_TESTS_CONTRACT_TENSOR_H_
