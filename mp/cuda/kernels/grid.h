// What the body of a kernel sees of the grid that runs it.  nvcc compiles the same text for GPUs
// that tests run on the host, blocks and threads interleaved (tests/fake/kernels).
//
//   struct Double {  // a body: plain data, handed to every thread
//     float* data;
//     int64_t count;
//     template <class Grid>
//     MP_DEVICE_CODE void operator()(Grid& grid) const {
//       for (int64_t i = FirstIndex(grid); i < count; i += IndexStep(grid)) {
//         grid.Store(data + i, 2 * grid.Load(data + i));
//
// | member of a grid | meaning |
// |---|---|
// | block(), blocks() | this thread's block, and how many there are |
// | thread(), threads() | this thread within its block, and how many a block has |
// | Load(from), Store(to, value) | global memory, at a multiple of the value's alignment |
// | Shared<T>() | one T for the whole block, not initialised |
// | Barrier() | waits for the block's other threads; reached by all of them or by none |
//
// Nothing in it waits for another block: a kernel runs on any number of free multiprocessors.
#ifndef MP_CUDA_KERNELS_GRID_H_
#define MP_CUDA_KERNELS_GRID_H_

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define MP_DEVICE_CODE __device__ __forceinline__
// In front of a loop: all of it, or a number of turns at a time.
#define MP_UNROLL _Pragma("unroll")
#define MP_UNROLL_BY(turns) MP_PRAGMA(unroll turns)
#define MP_PRAGMA(text) _Pragma(#text)
#else
#define MP_DEVICE_CODE inline
#define MP_UNROLL
#define MP_UNROLL_BY(turns)
#endif

namespace mp::cuda {

inline constexpr int kVectorBytes = 16;  // the widest load and store

// What one thread loads or stores at once.
template <typename T, int kLanes>
struct alignas(sizeof(T) * kLanes) Pack {
  T lane[kLanes];
};

template <class Grid>
MP_DEVICE_CODE int64_t FirstIndex(const Grid& grid) {
  return int64_t{grid.block()} * grid.threads() + grid.thread();
}

template <class Grid>
MP_DEVICE_CODE int64_t IndexStep(const Grid& grid) {
  return int64_t{grid.blocks()} * grid.threads();
}

#if defined(__CUDACC__)

class DeviceGrid {
 public:
  MP_DEVICE_CODE int block() const { return static_cast<int>(blockIdx.x); }
  MP_DEVICE_CODE int blocks() const { return static_cast<int>(gridDim.x); }
  MP_DEVICE_CODE int thread() const { return static_cast<int>(threadIdx.x); }
  MP_DEVICE_CODE int threads() const { return static_cast<int>(blockDim.x); }

  // One instruction also for a vector, which the compiler would take apart into its lanes.
  template <typename T>
  MP_DEVICE_CODE T Load(const T* from) const {
    if constexpr (sizeof(T) == sizeof(uint4)) {
      return std::bit_cast<T>(*reinterpret_cast<const uint4*>(from));
    } else {
      return *from;
    }
  }
  template <typename T>
  MP_DEVICE_CODE void Store(T* to, const T& value) const {
    if constexpr (sizeof(T) == sizeof(uint4)) {
      __stwb(reinterpret_cast<uint4*>(to), std::bit_cast<uint4>(value));
    } else {
      *to = value;
    }
  }
  template <typename T>
  MP_DEVICE_CODE T& Shared() const {
    __shared__ T shared;
    return shared;
  }
  MP_DEVICE_CODE void Barrier() const { __syncthreads(); }
};

template <class Body>
__global__ void RunBody(const __grid_constant__ Body body) {
  DeviceGrid grid;
  body(grid);
}

#endif  // __CUDACC__

}  // namespace mp::cuda

#endif  // MP_CUDA_KERNELS_GRID_H_
