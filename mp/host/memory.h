// Memory of the host backend, freed no earlier than the work that was queued when it was let go.
//
// Threads. Any number at once.
#ifndef MP_HOST_MEMORY_H_
#define MP_HOST_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/base/sync.h"
#include "mp/stream.h"

namespace mp::host {

class Memory {
 public:
  Memory() = default;
  ~Memory();

  // `bytes` bytes on a 128-byte boundary, uninitialised.  DeviceError: there are not so many.
  absl::StatusOr<void*> Allocate(int64_t bytes);

  // Frees at once if all streams are idle, else during a later Allocate or Free by when they have
  // passed what they hold now.
  void Free(void* data);

  // Streams whose work may use the memory.  A stream is idle when it goes.
  void Add(Stream& stream);
  void Remove(Stream& stream);

  // Allocations let go of and not yet freed.
  int64_t deferred_count();

 private:
  struct Deferred {
    void* data;
    std::vector<Event> uses;
  };
  void Reap();  // needs mutex_

  sync::Mutex mutex_;
  std::vector<Stream*> streams_;    // guarded by mutex_
  std::vector<Deferred> deferred_;  // guarded by mutex_
};

}  // namespace mp::host

#endif  // MP_HOST_MEMORY_H_
