// A family of devices and of ways to move data between them, handed in by the application.
//
//   std::shared_ptr<mp::Backend> backend = *mp::host::NewBackend({.devices = 4});
//   auto world = mp::World::Create(backend, {});
//
// Threads.   Any number at once.
// Ownership. Every World holds the Backend that it was made with.
#ifndef MP_BACKEND_H_
#define MP_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mp/base/sync.h"
#include "mp/communicator.h"
#include "mp/device.h"
#include "mp/order.h"
#include "mp/stall_watches.h"

namespace mp {

class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // "host", "cuda".
  absl::string_view name() const { return DoName(); }
  int device_count() const { return DoDeviceCount(); }
  // 0 <= index < device_count().
  Device& device(int index) { return DoDevice(index); }
  // The time that deadlines are measured in.
  sync::Clock& clock() { return DoClock(); }
  // Whether its streams record what they run, in Stream::track() (see mp/trace.h).
  bool records() const { return DoRecords(); }
  // DeviceLost, with the first cause: what it needs is lost to this process for ever, as far as a
  // call has told yet.  Any thread; does not wait.
  absl::Status CheckNotLost() const { return DoCheckNotLost(); }

  // A way to move data among ranks on these devices, in rank order; at least two.  Those of a
  // World; its Regions split it. InvalidArgument: a device is named twice and the backend cannot
  // have two ranks on one.
  absl::StatusOr<std::unique_ptr<Communicator>> NewCommunicator(const std::vector<int>& devices) {
    return DoNewCommunicator(devices);
  }

  Order& order() { return order_; }

  // Asks all that were added, so that whoever waits for a stream watches over every World.
  StallWatch& stall_watch() { return watches_; }
  void AddWatch(StallWatch& watch) { watches_.Add(watch); }
  // No call of `watch` is under way when it returns.
  void RemoveWatch(StallWatch& watch) { watches_.Remove(watch); }

 protected:
  Backend() = default;

 private:
  virtual absl::string_view DoName() const = 0;
  virtual int DoDeviceCount() const = 0;
  virtual Device& DoDevice(int index) = 0;
  virtual sync::Clock& DoClock() = 0;
  virtual bool DoRecords() const = 0;
  virtual absl::Status DoCheckNotLost() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Communicator>> DoNewCommunicator(
      const std::vector<int>& devices) = 0;

  Order order_;
  StallWatches watches_{order_};
};

}  // namespace mp

#endif  // MP_BACKEND_H_
