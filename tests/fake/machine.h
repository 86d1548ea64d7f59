// A machine with GPUs that is not there: the CUDA runtime and NCCL functions of //tests/fake:cudart
// and :nccl act on it.  Without a Machine they answer as a system without a driver does.
//
//   mp::fake::Machine machine({.devices = 3, .seed = 7});
//   ... CUDA calls on any threads ...
//   EXPECT_EQ(machine.Verdict(), "");
//
// Streams run asynchronously: one thread of the machine takes, by a seeded choice, any stream whose
// head can run.  With odd seeds it does so at once, with even ones only as far as the program
// asks (a query, a blocking call), which lets queues grow and reorders the most.
//
// A collective kernel occupies its device until the kernels of all ranks have started, and a
// device has room for one.  What could never end on real hardware is found: as soon as it is
// certain, or when nothing moved for stall_limit; then every later call fails with
// cudaErrorLaunchTimeout and the Verdict tells who waits for whom.
//
// Threads.   One Machine at a time in a process.  It outlives every call that uses it.
#ifndef MP_TESTS_FAKE_MACHINE_H_
#define MP_TESTS_FAKE_MACHINE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace mp::fake {

struct Options {
  int devices = 2;
  uint64_t seed = 1;
  absl::Duration stall_limit = absl::Seconds(10);
  // (device, peer): has no access to its memory, and cannot be given any.
  std::set<std::pair<int, int>> no_access;
  // What allocates or loads waits while the device runs a collective kernel, as it may.
  bool allocations_wait = true;
  // Whether "not ready" is kept as a thread's last error, as some versions do and others do not.
  bool keeps_not_ready = true;
  // What a stream queues at most; a call that queues more waits for room.
  size_t launch_queue = 1024;
};

// What exists at a moment.
struct Live {
  int64_t streams = 0;
  int64_t events = 0;
  int64_t allocations = 0;
  int64_t communicators = 0;
  int64_t bytes = 0;     // of allocations
  int64_t pools = 0;     // that the program has made
  int64_t captures = 0;  // that have not ended
  int64_t graphs = 0;
  int64_t executables = 0;  // graphs that can be launched
};

class Core;

class Machine {
 public:
  explicit Machine(const Options& options);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Whether the calling thread is work of a stream, for which the memory of devices is there.
  static bool RunsThisThread();

  Live live() const;
  // How many calls of the CUDA function `name` there were: "cudaEventQuery".
  int64_t calls(const std::string& name) const;
  // The same for every function that was called.
  std::map<std::string, int64_t> calls() const;
  // Elements of the largest collective or transfer that NCCL has been called for.
  size_t largest_count() const;
  // Lets the i-th call of the function from now on, counted from 1, answer `result` and do nothing;
  // an ncclGroupEnd launches some of its ranks before.  The error is not sticky.
  // Replaces what it was told of this function before.
  void FailCall(const std::string& name, int64_t i, int result);
  // The same for that call and all that follow.
  void FailCallsFrom(const std::string& name, int64_t i, int result);
  // The i-th call does not go on before Release().
  void StallCall(const std::string& name, int64_t i);
  // What the i-th call queues does not run before Release(), nor what its streams queue after it.
  void DelayCall(const std::string& name, int64_t i);
  // The i-th call does nothing and says success.  Not for calls that give something back.
  void LieInCall(const std::string& name, int64_t i);
  // The i-th call leaves this device current on its thread.
  void LeaveDevice(const std::string& name, int64_t i, int device);
  void Release();
  // Calls that have not been made yet do what they should again.
  void Heal();
  // Collective kernels start and do not end, but by an abort.
  void StallCollectives(bool stall);
  // From now on every call answers this error, as after an illegal address; what is queued is gone.
  void Lose(int result);
  // What ncclCommGetAsyncError says from now on.
  void ReportFromNccl(int result);

  // Whether the device runs a collective kernel.
  bool busy(int device) const;

  // A line for every use that real hardware or libraries would not forgive.
  std::vector<std::string> findings() const;
  // Empty where nothing is alive, queued or found; else what is, a line each.
  std::string Verdict() const;

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_MACHINE_H_
