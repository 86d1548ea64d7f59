// What tells a program about its machine, over the fake one: every GPU is alike, of 80 GiB, and
// NCCL is 2.28.9.  Weak, so that fakes that know more come before these.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>

extern "C" {

__attribute__((weak)) cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

__attribute__((weak)) cudaError_t cudaDriverGetVersion(int* version) {
  int count = 0;
  const bool has_driver = cudaGetDeviceCount(&count) != cudaErrorInsufficientDriver;
  cudaGetLastError();
  *version = has_driver ? 13010 : 0;
  return cudaSuccess;
}

__attribute__((weak)) cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  int count = 0;
  if (const cudaError_t result = cudaGetDeviceCount(&count); result != cudaSuccess) return result;
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "Fake GPU");
  properties->major = 9;
  properties->minor = 0;
  properties->totalGlobalMem = size_t{80} << 30;
  return cudaSuccess;
}

__attribute__((weak)) ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

}  // extern "C"
