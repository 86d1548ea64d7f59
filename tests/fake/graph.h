// Captures and graphs of the fake machine.
//
// A capture is what its streams would have queued: each node comes after those that its stream had
// seen.  A launch makes a task of every node and runs each as soon as those before it are done.
#ifndef MP_TESTS_FAKE_GRAPH_H_
#define MP_TESTS_FAKE_GRAPH_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake/core.h"

// By what it is called in the graph: its number.
struct CUgraphNode_st {
  mp::fake::MakeTask make;
  int device = 0;
  std::set<size_t> after;
};

struct CUgraph_st {
  std::deque<CUgraphNode_st> nodes;
};

namespace mp::fake {

// From cudaStreamBeginCapture to cudaStreamEndCapture.
struct Capture {
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  bool invalid = false;
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
};

// A graph that can be launched, until its last launch is done.
struct Executable {
  std::deque<CUgraphNode_st> nodes;
  std::deque<CUstream_st*> launches;  // that are not done, each on its stream
};

// Adds a node behind what the capturing stream has seen.
cudaError_t Record(CUstream_st& stream, MakeTask make);

// Spoils the captures beside which the calling thread may make no call that could wait for a
// device, and says whether there are any.
cudaError_t RefuseUnsafeCall(Core& core);

// Spoils the capture of a stream that is asked about, which it does not bear.
cudaError_t RefuseCapturing(CUstream_st& stream);

// All of the graph as one task of the stream.
std::unique_ptr<Task> NewLaunch(Core& core, std::shared_ptr<Executable> executable,
                                CUstream_st* stream);

}  // namespace mp::fake

struct CUgraphExec_st {
  std::shared_ptr<mp::fake::Executable> state;
};

#endif  // MP_TESTS_FAKE_GRAPH_H_
