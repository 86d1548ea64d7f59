// A non-blocking CUDA stream with its marks.
//
// A mark is a cudaEvent_t; the position of an mp::Event is its number in this stream, from 1.
// Marks are recorded and pass in the order of their numbers, so the outstanding ones are a queue:
// what has left it has passed, and its cudaEvent_t is free for the next mark, never before.
//
// CUDA has no place in a stream for work that is not known yet.  What there is instead is an *open*
// mark: its number is given when an operation is posted and it is recorded when the operation has
// been issued.  Until then it has not passed, and a stream that shall wait for it makes the calling
// thread wait for the issue.
//
// What the application captures from it (cudaStreamBeginCapture) gets kernels, copies and scalings
// only: a mark would spoil the capture as soon as anybody asks for it, and so would waiting for
// one. Both are Unsupported then.
//
// Every sixteenth operation has a mark that nobody has asked for, so that a long queue of them can
// be seen to move.
//
// Completion is polled.  An error that a poll finds is reported to the stream, and counts as
// passed: nothing waits for a device that is lost.
#ifndef MP_CUDA_STREAM_H_
#define MP_CUDA_STREAM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mp/base/ring_queue.h"
#include "mp/base/sync.h"
#include "mp/kernel.h"
#include "mp/stream.h"
#include "mp/tensor.h"

namespace mp::cuda {

// The longest distance of two rows that a copy engine takes (cudaDeviceProp::memPitch).
inline constexpr size_t kLongestPitch = (size_t{1} << 31) - 1;

class Stream final : public mp::Stream {
 public:
  // `ordinal` is CUDA's own number of the device.  `clock` outlives the stream.
  static absl::StatusOr<std::unique_ptr<Stream>> Create(int ordinal, sync::Clock& clock);
  // Around a stream of somebody else's.  InvalidArgument: it is not of this device.
  static absl::StatusOr<std::unique_ptr<Stream>> Wrap(int ordinal, sync::Clock& clock,
                                                      cudaStream_t handle);
  ~Stream() override;

  // Every mp::Stream of a CUDA backend is one of these.
  static Stream& Of(mp::Stream& stream) { return static_cast<Stream&>(stream); }

  cudaStream_t handle() const { return handle_; }
  int ordinal() const { return ordinal_; }

  // Where its last work is, for those who come back to it when the stream may be gone.
  struct Tail {
    sync::Mutex mutex;
    cudaStream_t handle = nullptr;  // guarded by mutex; null once everything there is done
  };
  const std::shared_ptr<Tail>& tail() const { return tail_; }

  // An open mark, behind all others.
  uint64_t Open();
  // Records an open mark behind what is queued, once those before it are recorded.
  void Close(uint64_t position);

 private:
  struct Mark {
    enum State : uint8_t { kOpen, kClosed, kRecorded };
    cudaEvent_t event = nullptr;  // null before it is recorded, and where that failed
    State state = kOpen;
    bool wanted = false;  // somebody knows its number
  };

  enum class Owner : uint8_t { kSelf, kCaller };
  Stream(int ordinal, sync::Clock& clock, cudaStream_t handle, Owner owner);
  absl::Status MakeEvents(int count);

  absl::Status DoLaunch(Kernel kernel) override;
  absl::Status DoCopy(const TensorView& source, const TensorView& target) override;
  absl::Status DoScale(const TensorView& source, const TensorView& target, double factor) override;
  mp::Event DoRecord() override;
  absl::Status DoWait(const mp::Event& event) override;
  bool DoQuery(uint64_t position) const override;
  bool DoHasPassed(uint64_t position) override;
  absl::StatusOr<bool> DoBlock(uint64_t position, absl::Duration timeout) override;
  std::optional<uint64_t> DoProgress() override;
  absl::Status DoCheckRoom() const override;  // where too much is queued CUDA makes the caller wait
  NativeStream DoNative() const override { return {handle_, ordinal_}; }

  bool Passed(uint64_t position) const { return position <= passed_.load(sync::kAcquire); }
  // Asks CUDA about a mark that has not passed; an error counts as passed.
  absl::StatusOr<bool> Poll(uint64_t position);
  // Makes `handle` wait for the mark; false where it is not recorded yet.
  absl::StatusOr<bool> Hold(cudaStream_t handle, uint64_t position);

  // With mutex_ held.
  Mark& MarkAt(uint64_t position);
  uint64_t last() const { return passed_.load(sync::kRelaxed) + marks_.size(); }
  absl::Status RecordAt(Mark& mark);
  absl::StatusOr<cudaEvent_t> FreeEvent();
  void Retire(uint64_t position);

  const int ordinal_;
  sync::Clock& clock_;
  const cudaStream_t handle_;
  const Owner owner_;
  const std::shared_ptr<Tail> tail_ = std::make_shared<Tail>();

  sync::Mutex mutex_;
  sync::Atomic<uint64_t> passed_{0};  // written under mutex_
  uint64_t operations_until_ = 0;     // the mark behind the last operation
  int unmarked_ = 0;                  // operations since the last mark
  RingQueue<Mark> marks_;             // marks_[i] has position passed_ + 1 + i
  std::vector<cudaEvent_t> free_;
};

}  // namespace mp::cuda

#endif  // MP_CUDA_STREAM_H_
