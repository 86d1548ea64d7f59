// What the contract suite has to know about the backend that it runs on.  The suite is one library;
// a test program is that library and one definition of ThisBackend():
//
//   mp::test::BackendUnderTest mp::test::ThisBackend() {
//     return {.name = "mine", .make = [](const Setup& setup) { return mine::NewBackend(...); }};
//   }
#ifndef MP_TESTS_CONTRACT_BACKEND_UNDER_TEST_H_
#define MP_TESTS_CONTRACT_BACKEND_UNDER_TEST_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "mp/backend.h"
#include "mp/base/sync.h"
#include "mp/dtype.h"
#include "mp/kernel.h"

namespace mp::test {

struct Setup {
  int devices = 2;
  // One thread drives everything, and the run is a function of the seed: nothing runs before that
  // thread waits, and then in a seeded order.  Otherwise as applications run the backend.
  bool seeded = false;
  uint64_t seed = 1;
  // Null for the machine's own.  Outlives the backend.
  sync::Clock* clock = nullptr;
};

struct Reduction {
  DType dtype;
  ReduceOp op;
  double scale;
  int ranks;
  bool shared_output;
};

inline void CopyOnHost(void* to, const void* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}
inline bool EveryReduction(const Reduction&) { return true; }
inline Kernel KernelOnHost(std::function<void()> body) { return Kernel(std::move(body)); }

struct BackendUnderTest {
  std::string name;
  std::function<absl::StatusOr<std::shared_ptr<Backend>>(const Setup&)> make;

  // Move bytes between the host's memory and a device's, at once.
  void (*copy_in)(void* device, const void* host, size_t bytes) = CopyOnHost;
  void (*copy_out)(void* host, const void* device, size_t bytes) = CopyOnHost;
  // Compute whose body may use copy_in and copy_out.
  Kernel (*kernel)(std::function<void()> body) = KernelOnHost;

  // Float reductions are the left fold in rank order, bit by bit.
  bool folds_in_rank_order = true;
  // A door returns before its peers have come, so that one thread can drive several ranks.
  bool doors_never_wait = true;
  // Queued work runs though nobody waits for it.
  bool runs_unwatched = true;
  // Streams record what they run (mp/trace.h).
  bool records = true;
  // World::Recent says when an operation has run.
  bool tells_the_end = true;
  // Several ranks may have one device.
  bool shares_devices = true;
  // What a reduction reads and writes may be memory of another rank's device; otherwise that is
  // InvalidArgument.
  bool reduces_any_memory = true;
  // What a reduction reads and writes may begin at any byte; otherwise at multiples of an element.
  bool reduces_at_any_byte = true;
  // Stream::Scale, which needs compute of the backend's own; otherwise it is Unsupported.
  bool scales = true;
  // Compute can fail while it runs; otherwise what is queued has no way to say so.
  bool compute_can_fail = true;
  // Compute is known as such while it runs, and refused what could wait for mp.
  bool knows_its_compute = true;
  // Region::Capture; otherwise that is Unsupported.
  bool graphs = true;
  // How often a test launches a graph that launches it as often as it can.
  int replays = 10'000;
  // Whether it carries out such a reduction; otherwise that is Unsupported.
  bool (*reduces)(const Reduction&) = EveryReduction;
};

BackendUnderTest ThisBackend();

// The same, made once.
inline const BackendUnderTest& Under() {
  static const BackendUnderTest backend = ThisBackend();
  return backend;
}

}  // namespace mp::test

#endif  // MP_TESTS_CONTRACT_BACKEND_UNDER_TEST_H_
