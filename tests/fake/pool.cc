// Memory pools of the fake CUDA runtime.  What comes from a pool is there from its place in the
// stream on, and its peers reach it where the pool says so, whatever else they have access to.
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fake/call.h"
#include "tests/fake/core.h"

namespace mp::fake {
namespace {

cudaError_t Allocate(Call& call, void** data, size_t bytes, std::shared_ptr<Pool> pool,
                     CUstream_st* stream) {
  Core& core = call.core();
  if (stream->capture != nullptr) {
    return call.Refuse(cudaErrorNotSupported, "an allocation in a graph: not modelled");
  }
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  Allocation made = NewAllocation(pool->device, bytes);
  if (made.data == nullptr) return call.Return(cudaErrorMemoryAllocation);
  made.pool = std::move(pool);
  made.there = false;
  core.allocations[made.data] = made;
  *data = made.data;
  return call.Submit(stream, [&core, address = made.data](CUstream_st*) {
    return std::make_unique<Action>("cudaMallocAsync", [&core, address] {
      const auto found = core.allocations.find(address);
      if (found != core.allocations.end()) found->second.there = true;
    });
  });
}

}  // namespace
}  // namespace mp::fake

// The handle, which is gone before the memory may be.
struct CUmemPoolHandle_st {
  std::shared_ptr<mp::fake::Pool> state;
};

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  MP_FAKE_BEGIN(cudaDeviceGetDefaultMemPool);
  if (!call.IsDevice(device)) return call.Return(cudaErrorInvalidDevice);
  auto& pools = call.core().default_pools;
  std::shared_ptr<CUmemPoolHandle_st>& found = pools[static_cast<size_t>(device)];
  if (found == nullptr) {
    found = std::make_shared<CUmemPoolHandle_st>();
    found->state = std::make_shared<mp::fake::Pool>(mp::fake::Pool{device, {device}});
  }
  *pool = found.get();
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  MP_FAKE_BEGIN(cudaMemPoolCreate);
  const int device = props->location.id;
  if (props->allocType != cudaMemAllocationTypePinned ||
      props->location.type != cudaMemLocationTypeDevice || !call.IsDevice(device)) {
    return call.Return(cudaErrorInvalidValue);
  }
  *pool =
      new CUmemPoolHandle_st{std::make_shared<mp::fake::Pool>(mp::fake::Pool{device, {device}})};
  call.core().pools.insert(*pool);
  return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  mp::fake::Call call("cudaMemPoolDestroy");
  const cudaError_t begin = call.Begin();
  if (begin != cudaSuccess && begin != call.core().sticky) return call.Return(begin);
  if (call.core().pools.erase(pool) == 0) {
    return call.Refuse(cudaErrorInvalidValue, "cudaMemPoolDestroy: no such pool");
  }
  delete pool;
  return call.Return(begin);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count) {
  MP_FAKE_BEGIN(cudaMemPoolSetAccess);
  mp::fake::Core& core = call.core();
  if (!core.Knows(pool)) return call.Return(cudaErrorInvalidValue);
  const int owner = pool->state->device;
  for (size_t i = 0; i < count; ++i) {
    const int device = list[i].location.id;
    const bool grants = list[i].flags == cudaMemAccessFlagsProtReadWrite;
    const bool revokes = list[i].flags == cudaMemAccessFlagsProtNone && device != owner;
    if (list[i].location.type != cudaMemLocationTypeDevice || !call.IsDevice(device) ||
        !(grants || revokes) || !core.CanAccess(device, owner)) {
      return call.Return(cudaErrorInvalidValue);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    auto& reachable = pool->state->reachable_from;
    if (list[i].flags == cudaMemAccessFlagsProtReadWrite) reachable.insert(list[i].location.id);
    if (list[i].flags == cudaMemAccessFlagsProtNone) reachable.erase(list[i].location.id);
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* location) {
  MP_FAKE_BEGIN(cudaMemPoolGetAccess);
  if (!call.core().Knows(pool) || location->type != cudaMemLocationTypeDevice ||
      !call.IsDevice(location->id)) {
    return call.Return(cudaErrorInvalidValue);
  }
  *flags = pool->state->reachable_from.count(location->id) > 0 ? cudaMemAccessFlagsProtReadWrite
                                                               : cudaMemAccessFlagsProtNone;
  return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  MP_FAKE_BEGIN(cudaMallocFromPoolAsync);
  if (call.core().streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  if (!call.core().Knows(pool)) return call.Return(cudaErrorInvalidValue);
  return mp::fake::Allocate(call, data, bytes, pool->state, stream);
}

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  cudaMemPool_t pool = nullptr;
  const mp::fake::Core* core = mp::fake::Core::Current();
  int device = -1;
  if (core != nullptr && !mp::fake::Core::InTask()) {
    std::lock_guard<std::mutex> lock(core->mutex);
    if (core->streams.count(stream) > 0) device = stream->device;
  }
  if (device >= 0) {
    const cudaError_t result = cudaDeviceGetDefaultMemPool(&pool, device);
    if (result != cudaSuccess) return result;
  }
  MP_FAKE_BEGIN(cudaMallocAsync);
  if (pool == nullptr) return call.Return(cudaErrorInvalidResourceHandle);
  return mp::fake::Allocate(call, data, bytes, pool->state, stream);
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  MP_FAKE_BEGIN(cudaFreeAsync);
  mp::fake::Core& core = call.core();
  if (core.streams.count(stream) == 0) return call.Return(cudaErrorInvalidResourceHandle);
  if (data == nullptr) return cudaSuccess;
  if (stream->capture != nullptr) {
    return call.Refuse(cudaErrorNotSupported, "cudaFreeAsync in a graph: not modelled");
  }
  const auto found = core.allocations.find(static_cast<const char*>(data));
  if (found == core.allocations.end() || found->second.pool == nullptr) {
    return call.Refuse(cudaErrorInvalidValue, "cudaFreeAsync: no memory of a pool");
  }
  return call.Submit(stream, [&core, address = found->first](CUstream_st*) {
    return std::make_unique<mp::fake::Action>(
        "cudaFreeAsync", [&core, address] { core.Forget("cudaFreeAsync", address); });
  });
}

}  // extern "C"
