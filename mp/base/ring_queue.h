// A first-in first-out queue in one block of memory that doubles when it is full and is kept when
// it empties, so that a queue in steady use allocates nothing.
//
// Threads. One at a time.
#ifndef MP_BASE_RING_QUEUE_H_
#define MP_BASE_RING_QUEUE_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace mp {

template <typename T>
class RingQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // Element `i` from the front; i < size().
  T& operator[](size_t i) { return slots_[(head_ + i) & (slots_.size() - 1)]; }
  const T& operator[](size_t i) const { return slots_[(head_ + i) & (slots_.size() - 1)]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }

  void Push(T value) {
    if (size_ == slots_.size()) Grow();
    ++size_;
    back() = std::move(value);
  }
  T Pop() {
    T value = std::exchange(front(), T());
    head_ = (head_ + 1) & (slots_.size() - 1);
    --size_;
    return value;
  }
  // The last one.
  T PopBack() {
    T value = std::exchange(back(), T());
    --size_;
    return value;
  }
  // Removes the elements for which `predicate` holds; the others keep their order.
  template <typename Predicate>
  void RemoveIf(Predicate predicate) {
    size_t kept = 0;
    for (size_t i = 0; i < size_; ++i) {
      if (predicate((*this)[i])) continue;
      if (kept != i) (*this)[kept] = std::move((*this)[i]);
      ++kept;
    }
    for (size_t i = kept; i < size_; ++i) (*this)[i] = T();
    size_ = kept;
  }

 private:
  void Grow() {
    std::vector<T> larger(slots_.empty() ? 8 : 2 * slots_.size());
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    head_ = 0;
  }

  std::vector<T> slots_;  // a power of two of them
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace mp

#endif  // MP_BASE_RING_QUEUE_H_
