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

namespace mp::fake {

struct Capture;

// What keeps a stream from going on: another stream, or a call of the program that has not been
// made (null).
struct Blocker {
  CUstream_st* stream;
  std::string why;
};

// One entry of a stream's queue.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::string Name() const = 0;
  virtual bool Ready() const { return true; }
  // Called when ready, and again until it returns true: it is done then.
  virtual bool Run() = 0;
  // Why it is not ready.
  virtual std::vector<Blocker> Blockers() const { return {}; }
  // Whether it needs a device besides its stream's.
  virtual bool RunsOn(int /*device*/) const { return false; }
};

// Makes the task that `stream` runs: at once, or for each launch of a graph.
using MakeTask = std::function<std::unique_ptr<Task>(CUstream_st* stream)>;

// A task that is always ready.
class Action final : public Task {
 public:
  Action(std::string name, std::function<void()> run)
      : name_(std::move(name)), run_(std::move(run)) {}
  std::string Name() const override { return name_; }
  bool Run() override { return run_(), true; }

 private:
  std::string name_;
  std::function<void()> run_;
};

struct Allocation {
  int device;
  size_t bytes;
  char* data;
  std::shared_ptr<void> memory;  // kernels that run on it hold it too
};

// Some of the device's memory, poisoned; null where there is none.
Allocation NewAllocation(int device, size_t bytes);

// What the calling thread has set.
struct ThreadState {
  uint64_t machine = 0;
  int device = 0;
  cudaError_t last = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
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
  std::set<std::shared_ptr<Capture>> captures;    // that have not ended
  std::map<const char*, Allocation> allocations;  // by address
  std::set<const void*> communicators;            // handles that may be used
  int64_t live_communicators = 0;                 // those of a clique are gone all at once
  std::set<std::pair<int, int>> peers;            // (device, peer): access is enabled
  std::set<std::pair<int, std::string>> loaded;   // (device, kernel)
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
  cudaError_t sticky = cudaSuccess;      // once set, the answer of every call

  // What the test wants this call of the function to answer; 0 for what it does by itself.
  int CountCall(const std::string& name);
  std::map<std::string, std::pair<int64_t, int>> to_fail;  // by function: which call, and how

  void Enqueue(CUstream_st* stream, std::unique_ptr<Task> task);
  // Why a kernel of the device cannot reach these bytes, empty where it can.
  std::string Unreachable(int device, const void* data, size_t bytes) const;
  // What a task has done breaks the machine for good.
  void Fault(cudaError_t result, const std::string& finding);
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
