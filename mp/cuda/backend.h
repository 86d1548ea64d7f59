// The backend of NVIDIA GPUs: devices are GPUs of this machine, data moves by NCCL and peer copies.
//
//   MP_ASSIGN_OR_RETURN(auto backend, mp::cuda::NewBackend({}));
//
// With NCCL each GPU carries one rank.  Without (Transport::kDirect, or a GPU that is named more
// than once) ranks share a GPU, up to 64 in a World:
//
//   mp::cuda::NewBackend({.devices = {0, 0, 0, 0}})   // an n-rank program on one GPU
//
// Programs that use it link //mp/cuda/kernels, the CUDA runtime and NCCL.
#ifndef MP_CUDA_BACKEND_H_
#define MP_CUDA_BACKEND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "mp/backend.h"
#include "mp/base/sync.h"

namespace mp::cuda {

// What carries reductions.  Gathers go by copies straight into place either way, and where GPUs do
// not reach each other's memory by NCCL.
enum class Transport {
  kAuto,    // kDirect up to direct_bytes, on shared GPUs and where there is no NCCL; else kNccl
  kNccl,    // NCCL alone
  kDirect,  // mp's own kernels over peer pointers, in rank order: bit by bit what the host gives
};

struct Options {
  // CUDA's numbers of the GPUs; device i of the Backend is devices[i].  Empty for all there are.
  std::vector<int> devices;
  Transport transport = Transport::kAuto;
  // Reductions of up to so many bytes go direct with kAuto, where the GPUs reach each other's
  // memory; by default as mp/cuda/route.cc has it.
  std::optional<int64_t> direct_bytes;
  // What each Region takes of each of its GPUs where they do not reach each other's memory, for
  // gathers on their way; larger ones go in pieces.  At least 1.
  int64_t workspace_bytes = int64_t{8} << 20;
  // The time that deadlines are measured in; null for the machine's steady clock.  Outlives the
  // Backend.
  sync::Clock* clock = nullptr;
};

// InvalidArgument: a number that is not a GPU of this machine, one given twice with kNccl, or a
// workspace below 1.  DeviceError: no driver, no GPU, or CUDA refuses.
//
// World::Create is InvalidArgument for ranks without NCCL that are more than 64, or on GPUs that do
// not reach each other's memory; and with kNccl for ranks that share a GPU.  It is UsageError over
// NCCL where another live Backend has a World over NCCL on one of the GPUs (there is no order
// between the two), or where CUDA_LAUNCH_BLOCKING is set.
absl::StatusOr<std::shared_ptr<Backend>> NewBackend(const Options& options);

}  // namespace mp::cuda

#endif  // MP_CUDA_BACKEND_H_
