// Stream capture and graphs of the fake CUDA runtime.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/fake/call.h"
#include "tests/fake/core.h"
#include "tests/fake/graph.h"

namespace mp::fake {
namespace {

// Whether every node comes before what the origin has seen.
bool IsJoined(const Capture& capture) {
  const std::deque<CUgraphNode_st>& nodes = capture.graph->nodes;
  std::set<size_t> seen = capture.origin->seen;
  for (size_t i = nodes.size(); i-- > 0;) {  // nodes come after smaller numbers
    if (seen.count(i) == 0) return false;
    seen.insert(nodes[i].after.begin(), nodes[i].after.end());
  }
  return true;
}

cudaStreamCaptureStatus StatusOf(const CUstream_st& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}

}  // namespace
}  // namespace mp::fake

using mp::fake::Capture;

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  MP_FAKE_BEGIN(cudaThreadExchangeStreamCaptureMode);
  std::swap(*mode, call.thread().capture_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  MP_FAKE_BEGIN(cudaStreamBeginCapture);
  if (stream == nullptr) return call.Return(cudaErrorStreamCaptureUnsupported);
  if (call.core().streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) return call.Return(cudaErrorIllegalState);
  static uint64_t next = 0;  // guarded by the machine's lock
  stream->capture = std::make_shared<Capture>();
  stream->capture->id = ++next;
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->origin = stream;
  call.core().captures.insert(stream->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  MP_FAKE_BEGIN(cudaStreamEndCapture);
  mp::fake::Core& core = call.core();
  *graph = nullptr;
  if (core.streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return call.Return(cudaErrorIllegalState);
  if (capture->origin != stream) return call.Return(cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return call.Return(cudaErrorStreamCaptureWrongThread);
  }
  const cudaError_t result = capture->invalid                ? cudaErrorStreamCaptureInvalidated
                             : !mp::fake::IsJoined(*capture) ? cudaErrorStreamCaptureUnjoined
                                                             : cudaSuccess;
  for (CUstream_st* member : core.streams) {
    if (member->capture != capture) continue;
    member->capture = nullptr;
    member->seen.clear();
  }
  core.captures.erase(capture);
  if (result != cudaSuccess) return call.Return(result);
  *graph = capture->graph.release();
  core.graphs.insert(*graph);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  MP_FAKE_BEGIN(cudaStreamIsCapturing);
  if (call.core().streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  *status = mp::fake::StatusOf(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  MP_FAKE_BEGIN(cudaStreamGetCaptureInfo);
  if (call.core().streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  *status = mp::fake::StatusOf(*stream);
  if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
  Capture& capture = *stream->capture;
  stream->seen_nodes.clear();
  for (const size_t number : stream->seen) {
    stream->seen_nodes.push_back(&capture.graph->nodes[number]);
  }
  if (id != nullptr) *id = capture.id;
  if (graph != nullptr) *graph = capture.graph.get();
  if (dependencies != nullptr) *dependencies = stream->seen_nodes.data();
  if (edges != nullptr) *edges = nullptr;  // all of them full dependencies
  if (count != nullptr) *count = stream->seen_nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  MP_FAKE_BEGIN(cudaGraphGetNodes);
  if (call.core().graphs.count(graph) == 0) return call.Return(cudaErrorInvalidValue);
  const size_t all = graph->nodes.size();
  for (size_t i = 0; nodes != nullptr && i < *count; ++i) {
    nodes[i] = i < all ? &graph->nodes[i] : nullptr;
  }
  *count = nodes == nullptr ? all : std::min(*count, all);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  MP_FAKE_BEGIN(cudaGraphInstantiate);
  if (call.core().graphs.count(graph) == 0) {
    return call.Refuse(cudaErrorInvalidValue, "cudaGraphInstantiate: no such graph");
  }
  if (flags != 0) return call.Refuse(cudaErrorInvalidValue, "cudaGraphInstantiate: not modelled");
  auto state = std::make_shared<mp::fake::Executable>();
  state->nodes = graph->nodes;
  *exec = new CUgraphExec_st{std::move(state)};
  call.core().executables.insert(*exec);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  mp::fake::Call call("cudaGraphDestroy");
  const cudaError_t begin = call.Begin();
  if (begin != cudaSuccess && begin != call.core().sticky) return call.Return(begin);
  if (call.core().graphs.erase(graph) == 0) {
    return call.Refuse(cudaErrorInvalidValue, "cudaGraphDestroy: no such graph");
  }
  delete graph;
  return call.Return(begin);
}

// What is queued still runs.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  mp::fake::Call call("cudaGraphExecDestroy");
  const cudaError_t begin = call.Begin();
  if (begin != cudaSuccess && begin != call.core().sticky) return call.Return(begin);
  if (call.core().executables.erase(exec) == 0) {
    return call.Refuse(cudaErrorInvalidValue, "cudaGraphExecDestroy: no such executable");
  }
  delete exec;
  return call.Return(begin);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  MP_FAKE_BEGIN(cudaGraphUpload);
  if (call.core().executables.count(exec) == 0 || call.core().streams.count(stream) == 0) {
    return call.Refuse(cudaErrorInvalidValue, "cudaGraphUpload: no such handle");
  }
  if (const cudaError_t result = mp::fake::RefuseCapturing(*stream); result != cudaSuccess) {
    return call.Return(result);
  }
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  MP_FAKE_BEGIN(cudaGraphLaunch);
  mp::fake::Core& core = call.core();
  if (core.executables.count(exec) == 0 || core.streams.count(stream) == 0) {
    return call.Refuse(cudaErrorInvalidValue, "cudaGraphLaunch: no such handle");
  }
  if (stream->capture != nullptr) {
    return call.Refuse(cudaErrorNotSupported, "cudaGraphLaunch into a capture: not modelled");
  }
  return call.Submit(stream, [&core, state = exec->state](CUstream_st* on) {
    return mp::fake::NewLaunch(core, state, on);
  });
}

}  // extern "C"
