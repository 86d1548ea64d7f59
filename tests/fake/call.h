// What every function of the fake CUDA runtime begins with.
#ifndef MP_TESTS_FAKE_CALL_H_
#define MP_TESTS_FAKE_CALL_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "tests/fake/core.h"
#include "tests/fake/graph.h"
#include "tests/fake/inside.h"

namespace mp::fake {

// A call of a CUDA function, for as long as it runs: holds the machine's lock.
class Call {
 public:
  explicit Call(const char* name) : core_(Core::Current()) {
    if (core_ == nullptr || Core::InTask()) return;
    lock_ = std::unique_lock<std::mutex>(core_->mutex);
    ruling_ = core_->CountCall(name, lock_);
    thread().open = ruling_.late;
  }
  ~Call() {
    if (!lock_.owns_lock()) return;
    thread().open = nullptr;
    if (ruling_.leave_device >= 0) thread().device = ruling_.leave_device;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // What the function answers before it looks at its arguments.
  cudaError_t Begin() {
    if (core_ == nullptr) return cudaErrorInsufficientDriver;
    if (Core::InTask()) return cudaErrorNotPermitted;
    if (core_->options.devices == 0) return cudaErrorNoDevice;
    return core_->sticky != cudaSuccess ? core_->sticky : static_cast<cudaError_t>(ruling_.result);
  }
  // Whether it is to say success now.
  bool lies() const { return ruling_.lies; }

  cudaError_t Return(cudaError_t result) {
    const bool keeps =
        core_ != nullptr && (result != cudaErrorNotReady || core_->options.keeps_not_ready);
    if (keeps && result != cudaSuccess) core_->thread().last = result;
    return result;
  }
  cudaError_t Refuse(cudaError_t result, const std::string& why) {
    core_->Report(why);
    return Return(result);
  }

  // Queues the task that `make` makes, or records it where the stream captures.
  cudaError_t Submit(CUstream_st* stream, MakeTask make) {
    if (stream->capture != nullptr) return Return(Record(*stream, std::move(make)));
    if (!core_->AwaitRoom(lock_, stream)) return Return(core_->sticky);
    core_->Enqueue(stream, make(stream));
    return cudaSuccess;
  }

  bool Wait(const std::function<bool()>& done) { return core_->WaitUntil(lock_, done); }
  // What allocates or loads may have to wait for what the device runs: one collective kernel, if
  // any, that waits for its peers.
  bool AwaitRoomOn(int device) {
    if (!core_->options.allocations_wait) return true;
    return Wait([&] { return core_->occupants[static_cast<size_t>(device)] == nullptr; });
  }
  Core& core() { return *core_; }
  ThreadState& thread() { return core_->thread(); }
  bool IsDevice(int device) const { return device >= 0 && device < core_->options.devices; }

 private:
  Inside inside_;
  Core* core_;
  std::unique_lock<std::mutex> lock_;
  Ruling ruling_;
};

}  // namespace mp::fake

// Answers what has to be answered before the arguments count.
#define MP_FAKE_BEGIN(name)                                                        \
  ::mp::fake::Call call(#name);                                                    \
  if (const cudaError_t begin = call.Begin(); begin != cudaSuccess || call.lies()) \
  return call.Return(begin)

// The same for a call that could wait for a device, which captures may forbid.
#define MP_FAKE_BEGIN_UNSAFE(name)                                          \
  MP_FAKE_BEGIN(name);                                                      \
  if (const cudaError_t unsafe = ::mp::fake::RefuseUnsafeCall(call.core()); \
      unsafe != cudaSuccess) {                                              \
    return call.Return(unsafe);                                             \
  }                                                                         \
  static_assert(true, "a semicolon follows")

#endif  // MP_TESTS_FAKE_CALL_H_
