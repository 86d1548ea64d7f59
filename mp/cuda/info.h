// What CUDA and NCCL say about this machine, for people to read.
//
// Asking makes no context and takes no memory of a GPU.
#ifndef MP_CUDA_INFO_H_
#define MP_CUDA_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mp::cuda {

struct Gpu {
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int64_t memory_bytes = 0;
  bool usable = false;        // whether mp has kernels for it
  std::vector<bool> reaches;  // for each GPU, whether this one can reach its memory
};

struct Info {
  std::string runtime;  // "13.0", the one in this program
  std::string driver;   // the newest that the driver runs; empty without a driver
  std::vector<Gpu> gpus;
  std::string why_no_gpu;   // where there is none
  std::string nccl;         // "2.28.9"; empty where it was not found
  std::string why_no_nccl;  // then
};

Info Look();

// How data goes between two of the GPUs, in words.
std::string RouteBetween(const Info& info, size_t a, size_t b);

}  // namespace mp::cuda

#endif  // MP_CUDA_INFO_H_
