// Memory for kernels that must not touch a byte outside their range.
#ifndef MP_TESTS_HOST_KERNELS_GUARDED_H_
#define MP_TESTS_HOST_KERNELS_GUARDED_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace mp::host {

// `size` bytes that start `offset` bytes after a cache line, with 64 guard bytes on both sides.
// All are poison at first.
class Guarded {
 public:
  static constexpr uint8_t kPoison = 0xA5;
  static constexpr int64_t kGuard = 64;

  Guarded(int64_t size, int64_t offset)
      : size_(size), memory_(static_cast<size_t>(size + offset + 2 * kGuard + 64), kPoison) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64 + kGuard + offset;
  }
  // Moving a vector keeps its elements where they are.
  Guarded(Guarded&&) = default;

  uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }

  void Fill(const void* from) {
    if (size_ > 0) std::memcpy(data_, from, static_cast<size_t>(size_));
  }
  bool Holds(const void* expected) const {
    return size_ == 0 || std::memcmp(data_, expected, static_cast<size_t>(size_)) == 0;
  }
  bool GuardsAreIntact() const {
    const auto intact = [](uint8_t byte) { return byte == kPoison; };
    return std::all_of(data_ - kGuard, data_, intact) &&
           std::all_of(data_ + size_, data_ + size_ + kGuard, intact);
  }

 private:
  int64_t size_;
  std::vector<uint8_t> memory_;
  uint8_t* data_;
};

}  // namespace mp::host

#endif  // MP_TESTS_HOST_KERNELS_GUARDED_H_
