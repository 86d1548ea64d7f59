#include "mp/command/backend_flag.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "mp/base/status.h"
#include "mp/command/cuda_backend.h"
#include "mp/host/backend.h"

namespace mp::command {
namespace {

absl::StatusOr<std::vector<int>> ParseGpus(const std::string& text) {
  std::vector<int> gpus;
  if (text.empty()) return gpus;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int gpu = 0;
    if (!absl::SimpleAtoi(part, &gpu) || gpu < 0) {
      return InvalidArgument("--devices=", text, ": must be numbers of GPUs like 0,1");
    }
    gpus.push_back(gpu);
  }
  return gpus;
}

bool IsUsable(const cuda::Info& info, int ranks) {
  const auto count = static_cast<size_t>(ranks);
  if (count > info.gpus.size()) return false;
  const auto fits = [&](const cuda::Gpu& gpu) {
    const bool reaches = std::find(gpu.reaches.begin(), gpu.reaches.begin() + ranks, false) ==
                         gpu.reaches.begin() + ranks;
    return gpu.usable && (reaches || !info.nccl.empty());
  };
  return std::all_of(info.gpus.begin(), info.gpus.begin() + ranks, fits);
}

// The GPU of each rank: those of --devices, else the first ones.
absl::StatusOr<std::vector<int>> ChooseGpus(const cuda::Info& info, const BackendFlags& flags,
                                            int ranks) {
  constexpr char kAdvice[] = "; --backend=host works everywhere";
  if (!info.why_no_gpu.empty()) {
    return MakeError(ErrorKind::kDeviceError,
                     absl::StrCat("--backend=cuda: ", info.why_no_gpu, kAdvice));
  }
  const auto count = static_cast<int>(info.gpus.size());
  const std::string there = absl::StrCat(count, count == 1 ? " GPU" : " GPUs");
  std::vector<int> gpus = GpusOf(flags);
  for (const int gpu : gpus) {
    if (gpu < count) continue;
    return InvalidArgument("--devices=", flags.devices, ": there is no GPU ", gpu,
                           ": this machine has ", there, ", counted from 0");
  }
  if (!gpus.empty()) return gpus;
  if (ranks > count) {
    return InvalidArgument("--backend=cuda: ", ranks, " ranks and ", there,
                           ": --devices=0,0,... lets ranks share one", kAdvice);
  }
  gpus.resize(static_cast<size_t>(ranks));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

// Rank i is on GPU gpus[i]; the Backend has each of them once.
absl::StatusOr<Place> OpenCuda(const std::vector<int>& gpus) {
  Place place;
  std::vector<int> distinct;
  for (const int gpu : gpus) {
    const auto found = std::find(distinct.begin(), distinct.end(), gpu);
    place.devices.push_back(static_cast<int>(found - distinct.begin()));
    if (found == distinct.end()) distinct.push_back(gpu);
  }
  MP_ASSIGN_OR_RETURN(place.backend, NewCudaBackend(distinct));
  return place;
}

absl::StatusOr<Place> OpenHost(int ranks, int threads) {
  Place place;
  MP_ASSIGN_OR_RETURN(place.backend, host::NewBackend({.devices = ranks, .threads = threads}));
  return place;
}

}  // namespace

void AddBackendFlag(CLI::App& app, const std::string& description, std::string& backend) {
  app.add_option("--backend", backend, description)
      ->check(CLI::IsMember({"auto", "host", "cuda"}))
      ->type_name("NAME")
      ->capture_default_str();
}

void AddBackendFlags(CLI::App& app, BackendFlags& flags) {
  AddBackendFlag(app,
                 "Where to run: host, cuda, or auto, which is cuda where there is a GPU for each\n"
                 "rank, else host",
                 flags.backend);
  app.add_option("--devices", flags.devices,
                 "With --backend=cuda: the GPU of each rank, like 0,1 or, for ranks that share\n"
                 "one, 0,0; the first ones by default")
      ->type_name("N,...");
}

absl::Status CheckBackendFlags(const BackendFlags& flags) {
  if (!flags.devices.empty() && flags.backend != "cuda") {
    return InvalidArgument("--devices=", flags.devices, " goes with --backend=cuda, not with ",
                           flags.backend);
  }
  return ParseGpus(flags.devices).status();
}

std::vector<int> GpusOf(const BackendFlags& flags) { return *ParseGpus(flags.devices); }

absl::StatusOr<Place> OpenPlace(const BackendFlags& flags, int ranks, int threads) {
  if (flags.backend == "host") return OpenHost(ranks, threads);
  if (flags.backend == "cuda") {
    if (const std::string why = WhyCudaIsLeftOut(); !why.empty()) {
      return Unsupported("--backend=cuda: this build of mp has no CUDA backend: ", why,
                         " when it was built; --backend=host works everywhere");
    }
    MP_ASSIGN_OR_RETURN(const std::vector<int> gpus, ChooseGpus(LookAtCuda(), flags, ranks));
    return OpenCuda(gpus);
  }
  const cuda::Info info = LookAtCuda();
  if (!IsUsable(info, ranks)) return OpenHost(ranks, threads);
  MP_ASSIGN_OR_RETURN(const std::vector<int> gpus, ChooseGpus(info, flags, ranks));
  return OpenCuda(gpus);
}

}  // namespace mp::command
