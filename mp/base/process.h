// The process that has made an object.  A child that fork() makes has the object's memory and none
// of its threads, and locks stay as they were: it must not use it, and not destroy it either.
//
//   const Process maker_;
//   MP_RETURN_IF_ERROR(maker_.Check());   // at each door
//   if (!maker_.is_this()) return;        // in the destructor: what waits, locks or frees stays
//
// Costs a load.  A child may make objects of its own.
//
// Threads. Any number at once.
#ifndef MP_BASE_PROCESS_H_
#define MP_BASE_PROCESS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "mp/base/sync.h"

namespace mp {

class Process {
 public:
  Process() : forks_(sync::CountForks()) {}

  bool is_this() const { return forks_ == sync::fork_count.load(sync::kRelaxed); }
  // UsageError: this is a child of it.
  absl::Status Check() const { return is_this() ? absl::OkStatus() : Refuse(); }

 private:
  static absl::Status Refuse();

  const uint32_t forks_;
};

// A deleter for what only its maker destroys.
struct DeleteInMaker {
  Process maker;
  template <typename T>
  void operator()(T* object) const {
    if (maker.is_this()) delete object;
  }
};

}  // namespace mp

#endif  // MP_BASE_PROCESS_H_
