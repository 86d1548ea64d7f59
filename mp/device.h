// One place that computes: its memory and its queues.
//
// Threads.   Any number at once.
// Ownership. Belongs to its Backend and outlives what it makes.
#ifndef MP_DEVICE_H_
#define MP_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "mp/base/process.h"
#include "mp/base/status.h"
#include "mp/buffer.h"
#include "mp/stream.h"
#include "mp/tensor.h"

namespace mp {

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Its number in the Backend, from 0.
  int index() const { return index_; }
  // For people: "host 0".
  std::string name() const { return DoName(); }

  // Memory for a dense tensor.  InvalidArgument: an impossible shape.  DeviceError: there is not
  // so much memory.
  absl::StatusOr<Buffer> Allocate(DType dtype, const Shape& shape);

  // An in-order queue of its own.  Destroying it waits for what is queued there.
  absl::StatusOr<std::unique_ptr<Stream>> NewStream();

  // Who is asked by threads that wait for streams made from now on; outlives them.
  void set_watch(StallWatch* watch) { watch_.store(watch, sync::kRelaxed); }

  // Something on it does not end: what it has is not waited for any more, nor freed, and it takes
  // nothing new.
  void Abandon() { DoAbandon(); }

  // Makes the calling thread one that works with this device (cudaSetDevice).
  const Process& maker() const { return maker_; }
  absl::Status BindThisThread() {
    MP_RETURN_IF_ERROR(maker_.Check());
    return DoBindThisThread();
  }

 protected:
  explicit Device(int index) : index_(index) {}
  StallWatch* watch() const { return watch_.load(sync::kRelaxed); }

 private:
  friend class Buffer;
  virtual std::string DoName() const = 0;
  virtual absl::StatusOr<void*> DoAllocate(int64_t bytes) = 0;
  virtual void DoFree(void* data) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> DoNewStream() = 0;
  virtual absl::Status DoBindThisThread() = 0;
  virtual void DoAbandon() {}

  const int index_;
  const Process maker_;
  sync::Atomic<StallWatch*> watch_{nullptr};
};

}  // namespace mp

#endif  // MP_DEVICE_H_
