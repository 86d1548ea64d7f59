#include "mp/cuda/info.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/cuda/route.h"
#include "mp/cuda/status.h"

namespace mp::cuda {
namespace {

// The first of ARCHITECTURES in third_party/cuda/object.bzl.
constexpr int kOldestMajor = 7;
constexpr int kOldestMinor = 5;

// 13000 is "13.0".
std::string CudaVersion(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// 22809 is "2.28.9"; before 2.9 there was one digit less.
std::string NcclVersion(int version) {
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  return absl::StrCat(major, ".", minor, ".", version % 100);
}

absl::Status LookAtVersions(Info& info) {
  int version = 0;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaRuntimeGetVersion(&version)));
  info.runtime = CudaVersion(version);
  MP_RETURN_IF_ERROR(MP_CUDA(cudaDriverGetVersion(&version)));
  if (version != 0) info.driver = CudaVersion(version);
  return absl::OkStatus();
}

absl::StatusOr<Gpu> LookAtGpu(int ordinal, int count) {
  cudaDeviceProp found{};
  MP_RETURN_IF_ERROR(MP_CUDA(cudaGetDeviceProperties(&found, ordinal)));
  Gpu gpu{.name = found.name,
          .major = found.major,
          .minor = found.minor,
          .memory_bytes = static_cast<int64_t>(found.totalGlobalMem)};
  gpu.usable = gpu.major > kOldestMajor || (gpu.major == kOldestMajor && gpu.minor >= kOldestMinor);
  for (int peer = 0; peer < count; ++peer) {
    int can = 1;
    if (peer != ordinal) {
      MP_RETURN_IF_ERROR(MP_CUDA(cudaDeviceCanAccessPeer(&can, ordinal, peer)));
    }
    gpu.reaches.push_back(can != 0);
  }
  return gpu;
}

absl::Status LookAtGpus(Info& info) {
  MP_RETURN_IF_ERROR(LookAtVersions(info));
  if (info.driver.empty()) return MakeError(ErrorKind::kDeviceError, "no NVIDIA driver");
  int count = 0;
  MP_RETURN_IF_ERROR(MP_CUDA(cudaGetDeviceCount(&count)));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    MP_ASSIGN_OR_RETURN(Gpu gpu, LookAtGpu(ordinal, count));
    info.gpus.push_back(std::move(gpu));
  }
  return absl::OkStatus();
}

}  // namespace

Info Look() {
  Info info;
  if (const absl::Status status = LookAtGpus(info); !status.ok()) {
    info.gpus.clear();
    info.why_no_gpu = std::string(status.message());
  }
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess) {
    info.nccl = NcclVersion(version);
  } else {
    info.why_no_nccl = ncclGetLastError(nullptr);
  }
  return info;
}

std::string RouteBetween(const Info& info, size_t a, size_t b) {
  const bool peers = info.gpus[a].reaches[b] && info.gpus[b].reaches[a];
  if (info.nccl.empty() && !peers) return "none: neither NCCL nor access to each other's memory";
  return Describe({.nccl = !info.nccl.empty(), .peers = peers, .direct = peers, .gpus = 2});
}

}  // namespace mp::cuda
