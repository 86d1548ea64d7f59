// Memory of one device that mp has allocated, freed when the Buffer goes.
//
//   MP_ASSIGN_OR_RETURN(mp::Buffer y, rank.device().Allocate(mp::DType::kF32, {8, 1024}));
//   MP_RETURN_IF_ERROR(rank.region().AllReduce(y.view()));
//
// The memory starts on a 128-byte boundary and is not initialised.
// Ownership. Move-only.  The device outlives it.  It may go while work that uses it is still queued
//            on streams of its Backend: the memory stays until that work is done.
#ifndef MP_BUFFER_H_
#define MP_BUFFER_H_

#include <utility>

#include "mp/tensor.h"

namespace mp {

class Device;

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        view_(std::exchange(other.view_, TensorView())) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(view_, other.view_);
    return *this;
  }
  ~Buffer();

  const TensorView& view() const { return view_; }
  void* data() const { return view_.data(); }

 private:
  friend class Device;
  Buffer(Device* device, const TensorView& view) : device_(device), view_(view) {}

  Device* device_ = nullptr;
  TensorView view_;
};

}  // namespace mp

#endif  // MP_BUFFER_H_
