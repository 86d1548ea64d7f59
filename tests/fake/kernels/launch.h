// How the fake launches a body: as a kernel of the stream, which runs it interleaved.
#ifndef MP_TESTS_FAKE_KERNELS_LAUNCH_H_
#define MP_TESTS_FAKE_KERNELS_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tests/fake/inside.h"
#include "tests/fake/kernels/interleaved.h"

namespace mp::fake {

// Memory that a kernel reads or writes.
struct Range {
  std::string name;
  const void* data;
  size_t bytes;
};

// What cudaLaunchKernel does: enqueues `run`, with another seed each time.  The ranges are looked
// up when it runs.  `symbol` tells kernels apart.
cudaError_t LaunchKernel(cudaStream_t stream, const std::string& symbol, std::vector<Range> ranges,
                         std::function<void(Interleaved)> run);

// What cudaFuncGetAttributes does: loads the kernel onto the current device.
cudaError_t LoadKernel(const std::string& symbol);

// Launches bodies of a kind, of which `ranges_of` tells the memory.
template <class RangesOf>
struct LaunchOn {
  cudaStream_t stream;
  RangesOf ranges_of;

  template <class Body>
  cudaError_t operator()(const Body& body, int blocks, int threads) const {
    const Inside inside;
    return LaunchKernel(stream, typeid(Body).name(), ranges_of(body),
                        [=](Interleaved interleaved) { interleaved(body, blocks, threads); });
  }
};

struct LoadOnly {
  template <class Body>
  cudaError_t operator()(const Body& /*body*/, int /*blocks*/, int /*threads*/) const {
    return LoadKernel(typeid(Body).name());
  }
};

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_KERNELS_LAUNCH_H_
