// Memory for kernels that must not touch a byte outside their range.
#ifndef MP_TESTS_CUDA_KERNELS_GUARDED_H_
#define MP_TESTS_CUDA_KERNELS_GUARDED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace mp::cuda {

// `size` bytes that start `offset` bytes after a multiple of 64, with 64 guard bytes on both sides.
// All are poison at first.
class Guarded {
 public:
  static constexpr uint8_t kPoison = 0xA5;
  static constexpr size_t kGuard = 64;

  Guarded(size_t size, size_t offset) : size_(size), memory_(size + offset + 3 * kGuard, kPoison) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (kGuard - address % kGuard) + kGuard + offset;
  }
  // Moving a vector keeps its elements where they are.
  Guarded(Guarded&&) = default;

  uint8_t* data() const { return data_; }
  void Fill(const std::vector<uint8_t>& bytes) {
    std::copy_n(bytes.begin(), std::min(bytes.size(), size_), data_);
  }
  std::vector<uint8_t> bytes() const { return {data_, data_ + size_}; }
  bool GuardsAreIntact() const {
    const auto intact = [](uint8_t byte) { return byte == kPoison; };
    const uint8_t* end = data_ + size_;
    return std::all_of(data_ - kGuard, data_, intact) &&
           std::all_of(end, memory_.data() + memory_.size(), intact);
  }

 private:
  size_t size_;
  std::vector<uint8_t> memory_;
  uint8_t* data_;
};

}  // namespace mp::cuda

#endif  // MP_TESTS_CUDA_KERNELS_GUARDED_H_
