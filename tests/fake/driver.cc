// What the fake driver answers about memory, to those who ask the runtime for its functions.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "tests/fake/call.h"
#include "tests/fake/core.h"

namespace mp::fake {
namespace {

template <typename T>
CUresult Answer(void* data, T value) {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult PointerGetAttribute(void* data, CUpointer_attribute what, CUdeviceptr address) {
  Call call("cuPointerGetAttribute");
  if (const cudaError_t begin = call.Begin(); begin != cudaSuccess) return CUDA_ERROR_UNKNOWN;
  Core& core = call.core();
  const Allocation* found = core.Find(reinterpret_cast<const void*>(address), 1);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool open = core.Unreachable(call.thread().device, found->data, 1).empty();
  switch (what) {
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Answer(data, found->pool == nullptr);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Answer(data, uint32_t{0});
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Answer(data, reinterpret_cast<uint64_t>(found->data));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Answer(data, found->bytes);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Answer(data, open ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                               : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace
}  // namespace mp::fake

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  MP_FAKE_BEGIN(cudaGetDriverEntryPoint);
  const bool known = std::strcmp(symbol, "cuPointerGetAttribute") == 0;
  *function = known ? reinterpret_cast<void*>(&mp::fake::PointerGetAttribute) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
