// Memory and copies of the fake CUDA runtime.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fake/call.h"
#include "tests/fake/core.h"

namespace mp::fake {
namespace {

// One side of a copy.
struct Side {
  char* data;
  size_t pitch;
  size_t rows;  // pitches from block to block
  bool on_device = false;
  int device = -1;  // where the caller says that it is; -1 where it does not say
};

struct Extent {
  size_t width, height, depth;
};

size_t Bytes(const Side& side, const Extent& extent) {
  const size_t last_row = (extent.depth - 1) * side.rows + extent.height - 1;
  return last_row * side.pitch + extent.width;
}

bool HasLowPitch(const Side& side, const Extent& extent) {
  return extent.height * extent.depth > 1 && side.pitch < extent.width;
}

// What copy engines take (cudaDeviceProp::memPitch).
bool HasLongPitch(const Side& side) { return side.pitch > 0x7fffffff; }

// "" where the side lies in live memory that is where the caller says.
std::string Fault(const Core& core, const Side& side, const Extent& extent) {
  if (HasLowPitch(side, extent)) return "pitch below the width";
  const Allocation* found = core.Find(side.data, Bytes(side, extent));
  if (found == nullptr && core.Find(side.data, 1) != nullptr) return "beyond its allocation";
  if ((found != nullptr) != side.on_device) {
    return side.on_device ? "not device memory" : "device memory where host memory is due";
  }
  if (found != nullptr && side.device >= 0 && found->device != side.device) {
    return absl::StrCat("on device ", found->device, ", not on device ", side.device);
  }
  return "";
}

void Move(const Side& to, const Side& from, const Extent& extent) {
  for (size_t block = 0; block < extent.depth; ++block) {
    for (size_t row = 0; row < extent.height; ++row) {
      std::memcpy(to.data + (block * to.rows + row) * to.pitch,
                  from.data + (block * from.rows + row) * from.pitch, extent.width);
    }
  }
}

std::string FaultOfBoth(const Core& core, const Side& to, const Side& from, const Extent& extent) {
  const std::string target = Fault(core, to, extent);
  if (!target.empty()) return absl::StrCat("target ", target);
  const std::string source = Fault(core, from, extent);
  return source.empty() ? "" : absl::StrCat("source ", source);
}

// Why a device cannot copy between memory of pools, empty where it can.  Other memory it reaches by
// way of the host where it has no access.
std::string FaultOfPools(const Core& core, int device, const Side& to, const Side& from) {
  for (const Side& side : {to, from}) {
    const Allocation* found = core.Find(side.data, 1);
    if (found == nullptr || found->pool == nullptr) continue;
    const std::string why = core.Unreachable(device, side.data, 1);
    if (!why.empty()) return why;
  }
  return "";
}

// From pageable host memory the bytes are taken at once; to it the call returns when they are
// there.  In a graph both is done when it runs.
cudaError_t Copy(Call& call, const char* name, Side to, Side from, const Extent& extent,
                 cudaStream_t stream) {
  Core& core = call.core();
  if (core.streams.count(stream) == 0) {
    return call.Refuse(cudaErrorInvalidResourceHandle, absl::StrCat(name, ": no such stream"));
  }
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
  const std::string fault = FaultOfBoth(core, to, from, extent);
  if (!fault.empty()) {
    const bool pitch = HasLowPitch(to, extent) || HasLowPitch(from, extent);
    return call.Refuse(pitch ? cudaErrorInvalidPitchValue : cudaErrorInvalidValue,
                       absl::StrCat(name, ": ", fault));
  }
  const bool now = stream->capture == nullptr;
  const int device = stream->device;
  std::shared_ptr<std::vector<char>> staged;
  if (!from.on_device && now) {
    staged = std::make_shared<std::vector<char>>(Bytes(from, extent));
    Side stage = from;
    stage.data = staged->data();
    Move(stage, from, extent);
    from = stage;
  }
  const auto done = std::make_shared<bool>(false);
  const cudaError_t result = call.Submit(stream, [=, &core](CUstream_st*) {
    return std::make_unique<Action>(name, [=, &core] {
      const std::string late = staged ? "" : FaultOfBoth(core, to, from, extent);
      const std::string fault_of_pools = FaultOfPools(core, device, to, from);
      if (!fault_of_pools.empty()) {
        core.Fault(cudaErrorIllegalAddress,
                   absl::StrCat(name, ": memory of a pool ", fault_of_pools));
      } else if (!late.empty()) {
        core.Report(absl::StrCat(name, ", when it ran: ", late));
      } else {
        Move(to, from, extent);
      }
      *done = true;
    });
  });
  if (result != cudaSuccess || to.on_device || !now) return result;
  return call.Return(call.Wait([done] { return *done; }) ? cudaSuccess : core.sticky);
}

// Says which sides are device memory.
void Resolve(const Core& core, cudaMemcpyKind kind, Side& to, Side& from) {
  to.on_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  from.on_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    to.on_device = core.Find(to.data, 1) != nullptr;
    from.on_device = core.Find(from.data, 1) != nullptr;
  }
}

char* Mutable(const void* data) { return static_cast<char*>(const_cast<void*>(data)); }

Side SideOf(const cudaPitchedPtr& pointer, const cudaPos& at, int device) {
  char* data = static_cast<char*>(pointer.ptr);
  data += (at.z * pointer.ysize + at.y) * pointer.pitch + at.x;
  return {data, pointer.pitch, pointer.ysize, true, device};
}

}  // namespace
}  // namespace mp::fake

using mp::fake::Side;

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  MP_FAKE_BEGIN_UNSAFE(cudaMalloc);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  mp::fake::Core& core = call.core();
  if (!call.AwaitRoomOn(call.thread().device)) return call.Return(core.sticky);
  const mp::fake::Allocation made = mp::fake::NewAllocation(call.thread().device, bytes);
  if (made.data == nullptr) return call.Return(cudaErrorMemoryAllocation);
  core.allocations[made.data] = made;
  *data = made.data;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  MP_FAKE_BEGIN(cudaPointerGetAttributes);
  *attributes = {};
  const mp::fake::Allocation* found = call.core().Find(data, 1);
  attributes->type = found != nullptr ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  attributes->device = found != nullptr ? found->device : -2;
  return cudaSuccess;
}

// Waits until the device is idle, as the real one does.
cudaError_t cudaFree(void* data) {
  MP_FAKE_BEGIN_UNSAFE(cudaFree);
  mp::fake::Core& core = call.core();
  const char* address = static_cast<const char*>(data);
  if (data == nullptr) return cudaSuccess;
  if (core.allocations.count(address) == 0) {
    return call.Refuse(cudaErrorInvalidValue, "cudaFree: no such allocation");
  }
  const int device = core.allocations[address].device;
  if (!call.Wait([&] { return core.IsIdle(device); })) return call.Return(core.sticky);
  core.Forget("cudaFree", address);
  return cudaSuccess;
}

// By way of a stream that no other one waits for, and done when it returns.
cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  MP_FAKE_BEGIN_UNSAFE(cudaMemcpy);
  if (count == 0) return cudaSuccess;
  Side to{static_cast<char*>(dst), count, 1};
  Side from{mp::fake::Mutable(src), count, 1};
  mp::fake::Resolve(call.core(), kind, to, from);
  const std::string fault = mp::fake::FaultOfBoth(call.core(), to, from, {count, 1, 1});
  if (!fault.empty()) return call.Refuse(cudaErrorInvalidValue, "cudaMemcpy: " + fault);
  mp::fake::Move(to, from, {count, 1, 1});
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  MP_FAKE_BEGIN(cudaMemcpyAsync);
  Side to{static_cast<char*>(dst), count, 1};
  Side from{mp::fake::Mutable(src), count, 1};
  mp::fake::Resolve(call.core(), kind, to, from);
  return mp::fake::Copy(call, "cudaMemcpyAsync", to, from, {count, 1, 1}, stream);
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  MP_FAKE_BEGIN(cudaMemcpy2DAsync);
  Side to{static_cast<char*>(dst), dpitch, height};
  Side from{mp::fake::Mutable(src), spitch, height};
  if (mp::fake::HasLongPitch(to) || mp::fake::HasLongPitch(from)) {
    return call.Refuse(cudaErrorInvalidPitchValue, "cudaMemcpy2DAsync: pitch too long");
  }
  mp::fake::Resolve(call.core(), kind, to, from);
  return mp::fake::Copy(call, "cudaMemcpy2DAsync", to, from, {width, height, 1}, stream);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  MP_FAKE_BEGIN(cudaMemcpy3DAsync);
  if (p->srcArray != nullptr || p->dstArray != nullptr) {
    return call.Refuse(cudaErrorInvalidValue, "cudaMemcpy3DAsync: not modelled");
  }
  Side to = mp::fake::SideOf(p->dstPtr, p->dstPos, -1);
  Side from = mp::fake::SideOf(p->srcPtr, p->srcPos, -1);
  if (mp::fake::HasLongPitch(to) || mp::fake::HasLongPitch(from)) {
    return call.Refuse(cudaErrorInvalidPitchValue, "cudaMemcpy3DAsync: pitch too long");
  }
  mp::fake::Resolve(call.core(), p->kind, to, from);
  return mp::fake::Copy(call, "cudaMemcpy3DAsync", to, from,
                        {p->extent.width, p->extent.height, p->extent.depth}, stream);
}

}  // extern "C"
