// The backend of this machine's own memory and cores: devices are places in memory, streams run on
// a small pool of threads, as asynchronous as a GPU's.
//
//   MP_ASSIGN_OR_RETURN(auto backend, mp::host::NewBackend({.devices = 4}));
//
// Any memory of the process can be used with any device.  Several ranks may share a device.
// Sums are folded in rank order and bit-equal on every rank, in every run.
#ifndef MP_HOST_BACKEND_H_
#define MP_HOST_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "mp/backend.h"
#include "mp/base/sync.h"

namespace mp::host {

// Who runs the work of streams.
enum class Execution {
  // A pool of threads, the threads that make work ready, and those that wait.
  kPool,
  // Only threads that make work ready and those that wait; the Backend has none of its own.
  kInline,
  // Like kInline, and nothing runs before somebody waits: then a seeded choice among all that is
  // ready.  With one thread a run is a function of the seed.
  kSeeded,
};

struct Options {
  int devices = 1;
  // Threads of the pool; 0 for one a core.
  int threads = 0;
  Execution execution = Execution::kPool;
  uint64_t seed = 1;
  // The time that deadlines are measured in; null for the machine's steady clock.  Outlives the
  // Backend.
  sync::Clock* clock = nullptr;
};

// InvalidArgument: no device, or a negative number of threads.  DeviceError: no thread to be had.
absl::StatusOr<std::shared_ptr<Backend>> NewBackend(const Options& options);

}  // namespace mp::host

#endif  // MP_HOST_BACKEND_H_
