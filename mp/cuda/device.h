// One GPU: its memory and its streams.  A Backend may have several Devices of one GPU, each with a
// rank of its own.
//
// Allocating and freeing can block a device until its queues are empty.  Both are therefore done
// under the launch lock of the backend: never between two devices' launches of one operation.
#ifndef MP_CUDA_DEVICE_H_
#define MP_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/base/sync.h"
#include "mp/cuda/stream.h"
#include "mp/device.h"
#include "mp/stream.h"

namespace mp::cuda {

class Device final : public mp::Device {
 public:
  // `ordinal` is CUDA's own number of the device.  `clock` and `launch` outlive it.
  Device(int index, int ordinal, sync::Clock& clock, sync::Mutex& launch)
      : mp::Device(index), ordinal_(ordinal), clock_(clock), launch_(launch) {}
  ~Device() override;

  int ordinal() const { return ordinal_; }
  sync::Mutex& launch() { return launch_; }
  absl::StatusOr<std::unique_ptr<mp::Stream>> Wrap(cudaStream_t stream);

  // Once, before anything else.  `others`: the Devices that are open already.
  absl::Status Open(const std::vector<std::unique_ptr<Device>>& others);

  // For operations whose results nobody looks at: the first ones of new communicators, and those
  // that only make ranks meet.
  static constexpr size_t kWarmUpBytes = 256 << 10;
  void* warm_up_memory() const { return warm_up_memory_; }
  const Stream& warm_up_stream() const { return *warm_up_stream_; }

  // The operations of a GPU run in their order also where they stand on different streams, or
  // two collective kernels could each wait for the other's peers.  Both with the launch lock held,
  // before and after an operation is enqueued on `stream`.  While there is one World, a mark is
  // made when the next operation stands on another stream, and not for each: what is queued behind
  // an operation in between is the rank's own, and that rank's next operation waits for it anyway.
  absl::Status TakeTurn(const Stream& stream);
  absl::Status EndTurn(const Stream& stream);
  // A World uses NCCL on it, from now and until then.  With the launch lock held.
  void AddUser() { ++turn_->users; }
  void RemoveUser() { --turn_->users; }

  // Lets kernels and copies on this device reach the memory of `peer`, where the hardware can.
  absl::Status ReachPeer(const Device& peer);
  bool reaches(const Device& peer) const;

 private:
  // One for all Devices of a GPU.  Guarded by launch_.
  struct Turn {
    ~Turn();
    std::shared_ptr<Stream::Tail> last;  // of the last operation; null where that is done
    cudaEvent_t event = nullptr;         // behind it, if `recorded`
    bool recorded = false;
    int users = 0;
  };
  absl::Status RecordTurn();

  std::string DoName() const override;
  absl::StatusOr<void*> DoAllocate(int64_t bytes) override;
  void DoFree(void* data) override;
  absl::StatusOr<std::unique_ptr<mp::Stream>> DoNewStream() override;
  absl::Status DoBindThisThread() override;
  void DoAbandon() override { abandoned_.store(true, sync::kRelease); }
  absl::Status CheckNotAbandoned() const;

  const int ordinal_;
  sync::Clock& clock_;
  sync::Mutex& launch_;
  void* warm_up_memory_ = nullptr;
  std::unique_ptr<Stream> warm_up_stream_;
  std::shared_ptr<Turn> turn_;
  std::vector<int> reached_;  // ordinals of other GPUs
  sync::Atomic<bool> abandoned_{false};
};

}  // namespace mp::cuda

#endif  // MP_CUDA_DEVICE_H_
