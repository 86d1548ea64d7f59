// The functions of the CUDA runtime that mp calls, over the fake machine.  They are defined against
// the real header: one that has changed there does not compile here.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake/call.h"
#include "tests/fake/core.h"

namespace mp::fake {
namespace {

struct RecordState {
  CUstream_st* where;
  bool done = false;
};

struct EventState {
  std::shared_ptr<RecordState> last;  // null before the first
  // Of a last record in a capture: which, and what its stream had seen.
  bool captured = false;
  std::weak_ptr<Capture> capture;
  std::set<size_t> seen;
};

bool Passed(const std::shared_ptr<RecordState>& record) {
  return record == nullptr || record->done;
}

class Mark final : public Task {
 public:
  explicit Mark(std::shared_ptr<RecordState> record) : record_(std::move(record)) {}
  std::string Name() const override { return "cudaEventRecord"; }
  bool Run() override { return record_->done = true; }

 private:
  std::shared_ptr<RecordState> record_;
};

// Waits for the record that was the last when it was queued, whatever becomes of later ones.
class Wait final : public Task {
 public:
  explicit Wait(std::shared_ptr<RecordState> record) : record_(std::move(record)) {}
  std::string Name() const override { return "cudaStreamWaitEvent"; }
  bool Ready() const override { return Passed(record_); }
  bool Run() override { return true; }
  std::vector<Blocker> Blockers() const override {
    return {{record_->where, "waits for an event"}};
  }

 private:
  std::shared_ptr<RecordState> record_;
};

// Code of the program, which runs on a thread of its own: that of one stream does not wait for
// that of another, nor does it hold the machine up.
class HostFunction final : public Task {
 public:
  HostFunction(Core& core, cudaHostFn_t function, void* data)
      : core_(core), function_(function), data_(data) {}
  std::string Name() const override { return "cudaLaunchHostFunc"; }
  bool Ready() const override { return !started_ || *ended_; }
  bool Run() override {
    if (started_) return true;
    started_ = true;
    core_.RunBeside([&core = core_, function = function_, data = data_, ended = ended_] {
      function(data);
      std::lock_guard<std::mutex> lock(core.mutex);
      *ended = true;
      core.Changed();
    });
    return false;
  }
  std::vector<Blocker> Blockers() const override {
    return {{nullptr, "runs code of the program, which has not returned"}};
  }

 private:
  Core& core_;
  cudaHostFn_t function_;
  void* data_;
  bool started_ = false;
  const std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
};

// The capture that the event's last record is part of, if it goes on.
std::shared_ptr<Capture> CaptureOf(const Core& core, const EventState& event) {
  const std::shared_ptr<Capture> capture = event.capture.lock();
  return event.captured && core.captures.count(capture) > 0 ? capture : nullptr;
}

// A stream is to wait for what is part of a capture: it becomes part of it as well.
cudaError_t Join(const Core& core, CUstream_st& stream, const EventState& event) {
  const std::shared_ptr<Capture> capture = CaptureOf(core, event);
  if (capture == nullptr) return cudaErrorCapturedEvent;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture == nullptr) stream.capture = capture;
  if (stream.capture != capture) {
    stream.capture->invalid = capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream.seen.insert(event.seen.begin(), event.seen.end());
  return cudaSuccess;
}

// What has no state to ask for.
cudaError_t RefuseCaptured(const Core& core, const EventState& event) {
  if (!event.captured) return cudaSuccess;
  if (const auto capture = CaptureOf(core, event); capture != nullptr) capture->invalid = true;
  return cudaErrorCapturedEvent;
}

}  // namespace
}  // namespace mp::fake

struct CUevent_st {
  int device;
  std::shared_ptr<mp::fake::EventState> state;
};

using mp::fake::Call;

extern "C" {

// Errors ------------------------------------------------------------------------------------------

cudaError_t cudaGetLastError() {
  mp::fake::Core* core = mp::fake::Core::Current();
  if (core == nullptr) return cudaErrorInsufficientDriver;
  const cudaError_t last = cudaPeekAtLastError();
  core->thread().last = cudaSuccess;
  return last;
}

cudaError_t cudaPeekAtLastError() {
  mp::fake::Core* core = mp::fake::Core::Current();
  if (core == nullptr) return cudaErrorInsufficientDriver;
  std::lock_guard<std::mutex> lock(core->mutex);
  return core->sticky != cudaSuccess ? core->sticky : core->thread().last;
}

const char* cudaGetErrorName(cudaError_t error) {
#define MP_FAKE_NAME(error) \
  case error:               \
    return #error
  switch (error) {
    MP_FAKE_NAME(cudaSuccess);
    MP_FAKE_NAME(cudaErrorInvalidValue);
    MP_FAKE_NAME(cudaErrorInvalidPitchValue);
    MP_FAKE_NAME(cudaErrorMemoryAllocation);
    MP_FAKE_NAME(cudaErrorInsufficientDriver);
    MP_FAKE_NAME(cudaErrorNoDevice);
    MP_FAKE_NAME(cudaErrorInvalidDevice);
    MP_FAKE_NAME(cudaErrorInvalidResourceHandle);
    MP_FAKE_NAME(cudaErrorIllegalState);
    MP_FAKE_NAME(cudaErrorNotReady);
    MP_FAKE_NAME(cudaErrorIllegalAddress);
    MP_FAKE_NAME(cudaErrorLaunchTimeout);
    MP_FAKE_NAME(cudaErrorPeerAccessAlreadyEnabled);
    MP_FAKE_NAME(cudaErrorPeerAccessNotEnabled);
    MP_FAKE_NAME(cudaErrorPeerAccessUnsupported);
    MP_FAKE_NAME(cudaErrorNotPermitted);
    MP_FAKE_NAME(cudaErrorNotSupported);
    MP_FAKE_NAME(cudaErrorStreamCaptureUnsupported);
    MP_FAKE_NAME(cudaErrorStreamCaptureInvalidated);
    MP_FAKE_NAME(cudaErrorStreamCaptureMerge);
    MP_FAKE_NAME(cudaErrorStreamCaptureUnmatched);
    MP_FAKE_NAME(cudaErrorStreamCaptureUnjoined);
    MP_FAKE_NAME(cudaErrorStreamCaptureIsolation);
    MP_FAKE_NAME(cudaErrorCapturedEvent);
    MP_FAKE_NAME(cudaErrorStreamCaptureWrongThread);
    default:
      return "cudaErrorOfTheFake";
  }
#undef MP_FAKE_NAME
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

// Devices -----------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
  MP_FAKE_BEGIN(cudaGetDeviceCount);
  *count = call.core().options.devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  MP_FAKE_BEGIN(cudaSetDevice);
  if (!call.IsDevice(device)) return call.Return(cudaErrorInvalidDevice);
  call.thread().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  MP_FAKE_BEGIN(cudaGetDevice);
  *device = call.thread().device;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  MP_FAKE_BEGIN(cudaDeviceCanAccessPeer);
  if (!call.IsDevice(device) || !call.IsDevice(peer)) return call.Return(cudaErrorInvalidDevice);
  *can = device != peer && call.core().CanAccess(device, peer);
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  MP_FAKE_BEGIN_UNSAFE(cudaDeviceEnablePeerAccess);
  const int device = call.thread().device;
  if (!call.IsDevice(peer) || peer == device) return call.Return(cudaErrorInvalidDevice);
  if (flags != 0) return call.Return(cudaErrorInvalidValue);
  if (!call.core().CanAccess(device, peer)) return call.Return(cudaErrorPeerAccessUnsupported);
  const bool fresh = call.core().peers.insert({device, peer}).second;
  return call.Return(fresh ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  MP_FAKE_BEGIN_UNSAFE(cudaDeviceDisablePeerAccess);
  if (!call.IsDevice(peer)) return call.Return(cudaErrorInvalidDevice);
  const bool was = call.core().peers.erase({call.thread().device, peer}) > 0;
  return call.Return(was ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

// Streams -----------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  MP_FAKE_BEGIN(cudaStreamCreateWithFlags);
  if (flags != cudaStreamNonBlocking) {
    return call.Refuse(cudaErrorInvalidValue, "a stream that waits for the default stream");
  }
  static int next = 0;  // guarded by the machine's lock
  auto made = std::make_unique<CUstream_st>();
  made->number = ++next;
  made->device = call.thread().device;
  *stream = call.core().Adopt(std::move(made));
  return cudaSuccess;
}

// What is queued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Call call("cudaStreamDestroy");
  const cudaError_t begin = call.Begin();
  if (begin != cudaSuccess && begin != call.core().sticky) return call.Return(begin);
  if (call.core().streams.erase(stream) == 0) {
    return call.Refuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy: no such stream");
  }
  stream->destroyed = true;
  if (stream->capture != nullptr) stream->capture->invalid = true;
  stream->capture = nullptr;
  return call.Return(begin);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  MP_FAKE_BEGIN_UNSAFE(cudaStreamSynchronize);
  if (call.core().streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  if (const cudaError_t result = mp::fake::RefuseCapturing(*stream); result != cudaSuccess) {
    return call.Return(result);
  }
  const bool done = call.Wait([stream] { return stream->queue.empty(); });
  return call.Return(done ? cudaSuccess : call.core().sticky);
}

// As with events.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  MP_FAKE_BEGIN_UNSAFE(cudaStreamQuery);
  if (call.core().streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  if (const cudaError_t result = mp::fake::RefuseCapturing(*stream); result != cudaSuccess) {
    return call.Return(result);
  }
  call.core().Poke();
  return call.Return(stream->queue.empty() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize() {
  MP_FAKE_BEGIN_UNSAFE(cudaDeviceSynchronize);
  const int device = call.thread().device;
  cudaError_t result = cudaSuccess;
  for (CUstream_st* stream : call.core().streams) {
    if (stream->device != device) continue;
    const cudaError_t refused = mp::fake::RefuseCapturing(*stream);
    if (refused != cudaSuccess && result == cudaSuccess) result = refused;
  }
  if (result != cudaSuccess) return call.Return(result);
  const bool done = call.Wait([&] { return call.core().IsIdle(device); });
  return call.Return(done ? cudaSuccess : call.core().sticky);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  MP_FAKE_BEGIN(cudaStreamWaitEvent);
  mp::fake::Core& core = call.core();
  if (core.streams.count(stream) == 0 || core.events.count(event) == 0) {
    return call.Refuse(cudaErrorInvalidResourceHandle, "cudaStreamWaitEvent: no such handle");
  }
  const bool external = flags == cudaEventWaitExternal && stream->capture != nullptr;
  if (flags != 0 && !external) return call.Return(cudaErrorInvalidValue);
  if (stream->capture != nullptr && stream->capture->invalid) {
    return call.Return(cudaErrorStreamCaptureInvalidated);
  }
  const auto state = event->state;
  const auto wait = [state](CUstream_st*) { return std::make_unique<mp::fake::Wait>(state->last); };
  if (external) return call.Submit(stream, wait);
  if (state->captured && (stream->capture == nullptr || mp::fake::CaptureOf(core, *state))) {
    return call.Return(mp::fake::Join(core, *stream, *state));
  }
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return call.Return(cudaErrorStreamCaptureIsolation);
  }
  return mp::fake::Passed(state->last) ? cudaSuccess : call.Submit(stream, wait);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* data) {
  MP_FAKE_BEGIN(cudaLaunchHostFunc);
  if (call.core().streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  return call.Submit(stream, [&core = call.core(), fn, data](CUstream_st*) {
    return std::make_unique<mp::fake::HostFunction>(core, fn, data);
  });
}

// Events ------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  MP_FAKE_BEGIN(cudaEventCreateWithFlags);
  if (flags != cudaEventDisableTiming) {
    return call.Refuse(cudaErrorInvalidValue, "an event that takes the time");
  }
  *event = new CUevent_st{call.thread().device, std::make_shared<mp::fake::EventState>()};
  call.core().events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Call call("cudaEventDestroy");
  const cudaError_t begin = call.Begin();
  if (begin != cudaSuccess && begin != call.core().sticky) return call.Return(begin);
  if (call.core().events.erase(event) == 0) {
    return call.Refuse(cudaErrorInvalidResourceHandle, "cudaEventDestroy: no such event");
  }
  delete event;
  return call.Return(begin);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  MP_FAKE_BEGIN(cudaEventRecord);
  mp::fake::Core& core = call.core();
  if (core.streams.count(stream) == 0 || core.events.count(event) == 0) {
    return call.Refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord: no such handle");
  }
  if (event->device != stream->device) {
    return call.Refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord: stream of another device");
  }
  const bool external = flags == cudaEventRecordExternal && stream->capture != nullptr;
  if (flags != 0 && !external) return call.Return(cudaErrorInvalidValue);
  const auto state = event->state;
  if (stream->capture != nullptr && !external) {
    if (stream->capture->invalid) return call.Return(cudaErrorStreamCaptureInvalidated);
    state->captured = true;
    state->capture = stream->capture;
    state->seen = stream->seen;
    return cudaSuccess;
  }
  if (!external) state->captured = false;
  return call.Submit(stream, [state](CUstream_st* on) {
    state->last = std::make_shared<mp::fake::RecordState>(mp::fake::RecordState{on});
    return std::make_unique<mp::fake::Mark>(state->last);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

// A query lets the streams go on, but answers what was true before.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  MP_FAKE_BEGIN_UNSAFE(cudaEventQuery);
  if (call.core().events.count(event) == 0) {
    return call.Refuse(cudaErrorInvalidResourceHandle, "cudaEventQuery: no such event");
  }
  const cudaError_t refused = mp::fake::RefuseCaptured(call.core(), *event->state);
  if (refused != cudaSuccess) return call.Return(refused);
  call.core().Poke();
  const bool passed = mp::fake::Passed(event->state->last);
  return call.Return(passed ? cudaSuccess : cudaErrorNotReady);
}

// Waits for the record that is the last now.
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  MP_FAKE_BEGIN_UNSAFE(cudaEventSynchronize);
  if (call.core().events.count(event) == 0) {
    return call.Refuse(cudaErrorInvalidResourceHandle, "cudaEventSynchronize: no such event");
  }
  const cudaError_t refused = mp::fake::RefuseCaptured(call.core(), *event->state);
  if (refused != cudaSuccess) return call.Return(refused);
  const auto passed = [record = event->state->last] { return mp::fake::Passed(record); };
  return call.Return(call.Wait(passed) ? cudaSuccess : call.core().sticky);
}

}  // extern "C"
