#include "mp/cuda/memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <iterator>

#include "absl/strings/str_format.h"
#include "mp/base/status.h"
#include "mp/cuda/current_device.h"
#include "mp/cuda/status.h"

namespace mp::cuda {
namespace {

uintptr_t Address(const void* data) { return reinterpret_cast<uintptr_t>(data); }

// A function of the driver, which programs do not link; null where it has none of this name.
void* DriverFunction(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t result =
      cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t result = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
  Forgive(result);
  return result == cudaSuccess && found == cudaDriverEntryPointSuccess ? function : nullptr;
}

// `value` where the driver does not know.
uint64_t Ask(const void* data, CUpointer_attribute what, uint64_t value) {
  using Query = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);
  static const auto query = reinterpret_cast<Query>(DriverFunction("cuPointerGetAttribute"));
  uint64_t answer = 0;  // longer than most answers, the first bytes of which are written
  if (query == nullptr || query(&answer, what, Address(data)) != CUDA_SUCCESS) return value;
  return answer;
}

}  // namespace

Allocations& Allocations::All() {
  static auto* all = new Allocations;
  return *all;
}

void Allocations::Add(const void* data, size_t bytes, int ordinal) {
  sync::MutexLock lock(mutex_);
  by_address_[Address(data)] = {Address(data) + bytes, ordinal};
}

void Allocations::Remove(const void* data) {
  sync::MutexLock lock(mutex_);
  by_address_.erase(Address(data));
}

int Allocations::OwnerOf(const void* data) {
  sync::MutexLock lock(mutex_);
  const auto next = by_address_.upper_bound(Address(data));
  if (next == by_address_.begin()) return -1;
  const Allocation& found = std::prev(next)->second;
  return Address(data) < found.end ? found.ordinal : -1;
}

absl::StatusOr<int> OwnerOf(const void* data) {
  const int own = Allocations::All().OwnerOf(data);
  if (own >= 0) return own;
  cudaPointerAttributes found{};
  MP_RETURN_IF_ERROR(MP_CUDA(cudaPointerGetAttributes(&found, data)));
  if (found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged) {
    return found.device;
  }
  return InvalidArgument("is no memory of a GPU");
}

std::vector<int> ClosedTo(const void* data, absl::Span<const int> ordinals) {
  std::vector<int> closed;
  if (ordinals.empty() || Allocations::All().OwnerOf(data) >= 0) return closed;
  if (Ask(data, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 1) != 0) return closed;
  if (Ask(data, CU_POINTER_ATTRIBUTE_IS_MANAGED, 1) != 0) return closed;
  constexpr uint64_t kOpen = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
  for (const int ordinal : ordinals) {
    const CurrentDevice current(ordinal);
    if (!current.status().ok()) continue;
    if (Ask(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, kOpen) != kOpen) closed.push_back(ordinal);
  }
  return closed;
}

std::string RangeOf(const void* data) {
  const uint64_t begin = Ask(data, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 0);
  const uint64_t bytes = Ask(data, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 0);
  return bytes == 0 ? "" : absl::StrFormat("0x%x to 0x%x", begin, begin + bytes);
}

}  // namespace mp::cuda
