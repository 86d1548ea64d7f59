// A test program on real GPUs: runs nothing where there is none, and says so.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdio>

int main(int argc, char** argv) {
  int count = 0;
  const cudaError_t looked = cudaGetDeviceCount(&count);
  if (looked != cudaSuccess || count == 0) {
    std::printf("no GPU (%s): 0 ran\n", cudaGetErrorString(looked));
    return 0;
  }
  int runtime = 0;
  int driver = 0;
  int nccl = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  if (ncclGetVersion(&nccl) != ncclSuccess) std::printf("NCCL: %s\n", ncclGetLastError(nullptr));
  std::printf("%d GPUs, CUDA runtime %d, driver %d, NCCL %d\n", count, runtime, driver, nccl);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
