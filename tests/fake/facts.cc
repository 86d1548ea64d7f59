// What the fake CUDA runtime tells about its machine: every GPU is alike, of 80 GiB.

#include <cuda_runtime_api.h>

#include <cstring>

extern "C" {

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  int count = 0;
  const bool has_driver = cudaGetDeviceCount(&count) != cudaErrorInsufficientDriver;
  cudaGetLastError();
  *version = has_driver ? 13010 : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
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

}  // extern "C"
