// A grid on the host for the bodies of mp/cuda/kernels: every thread of it has its own stack, and a
// seeded choice takes which one goes on, at each barrier and at some of the loads and stores.
// Blocks start in any order, a few at a time.
//
//   LaunchFoldBy(fold, Interleaved{.seed = 7});  // the result is there when it returns
//
// What a GPU would not forgive ends the program with a line that says where: an address that is no
// multiple of the value's alignment, a barrier that not all threads of a block reach.
//
// Threads. All of a grid run on the calling one.
#ifndef MP_TESTS_FAKE_KERNELS_INTERLEAVED_H_
#define MP_TESTS_FAKE_KERNELS_INTERLEAVED_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

namespace mp::fake {

class Schedule;

// What a body sees; see mp/cuda/kernels/grid.h.
class HostGrid {
 public:
  HostGrid(Schedule& schedule, int block, int blocks, int thread, int threads)
      : schedule_(schedule), block_(block), blocks_(blocks), thread_(thread), threads_(threads) {}

  int block() const { return block_; }
  int blocks() const { return blocks_; }
  int thread() const { return thread_; }
  int threads() const { return threads_; }

  template <typename T>
  T Load(const T* from) {
    Access(from, sizeof(T), alignof(T));
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  template <typename T>
  void Store(T* to, const T& value) {
    Access(to, sizeof(T), alignof(T));
    std::memcpy(to, &value, sizeof(T));
  }
  template <typename T>
  T& Shared() {
    return *static_cast<T*>(SharedBytes(sizeof(T)));
  }
  void Barrier();

 private:
  void Access(const void* data, size_t bytes, size_t alignment);
  void* SharedBytes(size_t bytes);

  Schedule& schedule_;
  const int block_, blocks_, thread_, threads_;
};

void RunInterleaved(int blocks, int threads, uint64_t seed,
                    const std::function<void(HostGrid&)>& body);

// Launches a body by running it.
struct Interleaved {
  uint64_t seed = 1;

  template <class Body>
  cudaError_t operator()(const Body& body, int blocks, int threads) const {
    RunInterleaved(blocks, threads, seed, [&body](HostGrid& grid) { body(grid); });
    return cudaSuccess;
  }
};

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_KERNELS_INTERLEAVED_H_
