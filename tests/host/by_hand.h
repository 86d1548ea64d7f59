// The parts of the host backend put together by hand, for tests that run them step by step.
//
//   Host host(Execution::kSeeded, seed);
//   auto stream = host.NewStream();
//   Held held(*stream);     // nothing behind this point of the stream runs ...
//   host.RunReady();
//   held.Release();         // ... until now
//
// The clock is one that only waits move, so that a wait that would never end ends the process; give
// the real one where there are more threads than one.
#ifndef MP_TESTS_HOST_BY_HAND_H_
#define MP_TESTS_HOST_BY_HAND_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "mp/base/sync.h"
#include "mp/host/backend.h"
#include "mp/host/executor.h"
#include "mp/host/memory.h"
#include "mp/host/stream.h"

namespace mp::host {

struct Host {
  explicit Host(Execution execution, uint64_t seed = 1, sync::Clock* real_clock = nullptr)
      : executor(Executor::Create({.threads = 3, .execution = execution, .seed = seed}).value()),
        used(real_clock != nullptr ? *real_clock : clock) {}

  std::unique_ptr<HostStream> NewStream(int device = 0) {
    return std::make_unique<HostStream>(*executor, memory, used, device);
  }
  // Runs one thing that is ready; false where there is none.
  bool RunOne() {
    AwakeWait awake(*executor);
    return executor->HelpOnce();
  }
  void RunReady() {
    while (RunOne()) {
    }
  }

  std::unique_ptr<Executor> executor;
  sync::FakeClock clock;
  sync::Clock& used;
  Memory memory;
};

// Keeps an idle stream from going on, by owning its strand.
class Held {
 public:
  explicit Held(HostStream& stream) : stream_(stream) { EXPECT_TRUE(stream.TryOwn()); }
  // `may_compute`: kernels behind it may run on this thread.
  void Release(bool may_compute = true) {
    Strands strands;
    stream_.Resume(strands);
    HostStream::RunAll(strands, may_compute);
  }

 private:
  HostStream& stream_;
};

// The executions with which one thread is enough.
inline constexpr Execution kAlone[] = {Execution::kInline, Execution::kSeeded};

}  // namespace mp::host

#endif  // MP_TESTS_HOST_BY_HAND_H_
