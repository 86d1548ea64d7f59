// The inside of the fake machine, which the fake CUDA runtime and the fake NCCL share.
//
// One lock guards everything, and every task of a stream runs under it.  Code of the program runs
// on a thread of its own, without it.
#ifndef MP_TESTS_FAKE_CORE_H_
#define MP_TESTS_FAKE_CORE_H_

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake/machine.h"
#include "tests/fake/task.h"

namespace mp::fake {

struct Capture;

// Where the memory of a pool lies, and from which devices it is reached.
struct Pool {
  int device;
  std::set<int> reachable_from;
};

struct Allocation {
  int device;
  size_t bytes;
  char* data;
  std::shared_ptr<void> memory;  // kernels that run on it hold it too
  std::shared_ptr<Pool> pool;    // null where it comes from none
  bool there = true;             // whether its stream has come to the allocation
};

// Some of the device's memory, poisoned; null where there is none.
Allocation NewAllocation(int device, size_t bytes);

// What a test wants of one call of a function, or of all from it on.
struct Knob {
  enum class Kind { kFail, kFailFromHere, kStall, kLate, kLie, kLeaveDevice };
  Kind kind;
  int64_t call;
  int value = 0;  // the result, or the device
};

// The same for the call that is being made.
struct Ruling {
  int result = 0;  // 0 for what it does by itself
  bool lies = false;
  int leave_device = -1;
  std::shared_ptr<bool> stalls;  // until it is true
  std::shared_ptr<bool> late;    // until it is true
};

// What the calling thread has set.
struct ThreadState {
  uint64_t machine = 0;
  int device = 0;
  cudaError_t last = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::shared_ptr<const bool> open;  // what this call queues waits for it
};

class Core {
 public:
  explicit Core(const Options& options);
  ~Core();

  // The machine that is there, or null.
  static Core* Current();
  // Of the calling thread, fresh for each machine.
  ThreadState& thread();

  const Options options;

  // Everything below is guarded by it.
  mutable std::mutex mutex;
  std::set<CUstream_st*> streams;  // alive
  std::set<CUevent_st*> events;
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> executables;
  std::set<std::shared_ptr<Capture>> captures;                     // that have not ended
  std::map<const char*, Allocation> allocations;                   // by address
  std::set<CUmemPoolHandle_st*> pools;                             // that the program has made
  std::vector<std::shared_ptr<CUmemPoolHandle_st>> default_pools;  // by device
  std::set<const void*> communicators;                             // handles that may be used
  int64_t live_communicators = 0;                // those of a clique are gone all at once
  std::set<std::pair<int, int>> peers;           // (device, peer): access is enabled
  std::set<std::pair<int, std::string>> loaded;  // (device, kernel)
  // By device: the stream whose head is the collective kernel that it runs, and the thread that is
  // inside NCCL with a communicator of it.
  std::vector<CUstream_st*> occupants;
  std::vector<std::thread::id> nccl_threads;
  // By device: the collectives that it was given last, by number, in its order.
  std::vector<std::deque<uint64_t>> launched;
  uint64_t meetings = 0;                 // collectives so far
  int64_t collectives = 0;               // kernels of them that are queued or run
  bool stalled = false;                  // collective kernels do not end
  int nccl_error = 0;                    // what NCCL says asynchronously
  std::map<std::string, int64_t> calls;  // by function
  size_t largest_count = 0;              // of collectives and transfers
  cudaError_t sticky = cudaSuccess;      // once set, the answer of every call

  // Counts a call of the function, and holds it up where the test wants that.
  Ruling CountCall(const std::string& name, std::unique_lock<std::mutex>& lock);
  std::multimap<std::string, Knob> knobs;    // by function
  std::vector<std::shared_ptr<bool>> gates;  // what stalls and is late waits for

  void Enqueue(CUstream_st* stream, std::unique_ptr<Task> task);
  // Waits for room in the stream's queue; false where the machine has broken.
  bool AwaitRoom(std::unique_lock<std::mutex>& lock, CUstream_st* stream);
  bool Knows(CUmemPoolHandle_st* pool) const;
  // Whether the devices' links let one reach the other's memory.
  bool CanAccess(int device, int peer) const {
    return options.no_access.count({device, peer}) == 0;
  }
  // Takes memory away, under what else runs on it.
  void Forget(const std::string& name, const char* address);
  // Why a kernel of the device cannot reach these bytes, empty where it can.
  std::string Unreachable(int device, const void* data, size_t bytes) const;
  // What a task has done breaks the machine for good.
  void Fault(cudaError_t result, const std::string& finding);
  // Blocked callers look again.
  void Wake();
  // Something that a task's Ready looks at is different now.
  void Changed();
  // The program looked at something: the streams may go on for a while.
  void Poke();
  // Blocks the caller until `done`, as CUDA calls that synchronise do.  False on a sticky error.
  bool WaitUntil(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  bool IsIdle(int device) const;
  // The allocation that holds all of these bytes, or null.
  const Allocation* Find(const void* data, size_t bytes) const;
  void Report(std::string finding) { findings_.push_back(std::move(finding)); }
  const std::vector<std::string>& findings() const { return findings_; }
  size_t queued() const;
  // Runs code of the program beside everything else, as a task; joined when the machine goes.
  void RunBeside(std::function<void()> run);
  // Adopts a new stream, which lives on after cudaStreamDestroy until it is empty.
  CUstream_st* Adopt(std::unique_ptr<CUstream_st> stream);
  // 0 <= result < bound.
  size_t Choose(size_t bound);
  static bool InTask();

 private:
  void Schedule();
  std::vector<CUstream_st*> Heads(bool ready) const;
  // A line for each stream that can never go on, empty where there is none.
  std::vector<std::string> Deadlocked(const std::vector<CUstream_st*>& blocked) const;
  // Nothing that is queued will run.
  void Drop();

  const uint64_t id_;
  std::vector<std::string> findings_;
  std::vector<std::unique_ptr<CUstream_st>> all_streams_;
  std::mt19937_64 random_;
  std::condition_variable work_;   // the scheduler waits for it
  std::condition_variable moved_;  // blocked callers wait for it
  int waiters_ = 0;
  int64_t credit_ = 0;    // tasks that may run before the program looks again
  uint64_t changes_ = 0;  // by calls of the program
  bool stop_ = false;
  std::vector<std::thread> beside_;        // code of the program that runs or has run
  std::vector<std::thread::id> finished_;  // which of it has
  std::thread scheduler_;
};

}  // namespace mp::fake

struct CUstream_st {
  int number = 0;
  int device = 0;
  bool destroyed = false;
  std::deque<std::unique_ptr<mp::fake::Task>> queue;
  // While it captures: the nodes that the next one comes after, and their handles as they were last
  // handed out.
  std::shared_ptr<mp::fake::Capture> capture;
  std::set<size_t> seen;
  std::vector<cudaGraphNode_t> seen_nodes;

  std::string Name() const {
    return "stream " + std::to_string(number) + " of device " + std::to_string(device);
  }
};

#endif  // MP_TESTS_FAKE_CORE_H_
