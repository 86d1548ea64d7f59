// mp info: what this program and this machine have to offer.

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/command/backend_flag.h"
#include "mp/command/command.h"
#include "mp/command/cuda_backend.h"
#include "mp/command/version.h"
#include "mp/host/backend.h"
#include "nlohmann/json.hpp"

namespace mp::command {
namespace {

// A line of /proc/meminfo, in bytes; 0 where there is none.
int64_t MemoryBytes(const std::string& field) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  int64_t kilobytes = 0;
  while (file >> name >> kilobytes && std::getline(file, unit)) {
    if (name == field + ":") return kilobytes * 1024;
  }
  return 0;
}

absl::StatusOr<std::string> HostRoute() {
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Backend> backend,
                      host::NewBackend({.devices = 2, .execution = host::Execution::kInline}));
  MP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, backend->NewCommunicator({0, 1}));
  return communicator->Route();
}

struct Host {
  std::string route;
  int cores = sync::CoreCount();
  int64_t total_bytes = MemoryBytes("MemTotal");
  int64_t available_bytes = MemoryBytes("MemAvailable");
};

// What there is to say of cuda: all of it, or why there is nothing.
struct Cuda {
  std::string why_left_out = WhyCudaIsLeftOut();
  cuda::Info info = LookAtCuda();
};

// Calls function(a, b) for each pair of GPUs.
template <typename Function>
void ForEachPair(const cuda::Info& info, const Function& function) {
  for (size_t a = 0; a < info.gpus.size(); ++a) {
    for (size_t b = a + 1; b < info.gpus.size(); ++b) function(a, b);
  }
}

std::string Capability(const cuda::Gpu& gpu) { return absl::StrCat(gpu.major, ".", gpu.minor); }

// --- for programs --------------------------------------------------------------------------------

using Json = nlohmann::ordered_json;

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json CudaJson(const Cuda& cuda) {
  if (!cuda.why_left_out.empty()) return {{"left_out", cuda.why_left_out}};
  const cuda::Info& info = cuda.info;
  Json json = {{"runtime", info.runtime},
               {"driver", TextOrNull(info.driver)},
               {"nccl", TextOrNull(info.nccl)}};
  if (!info.why_no_nccl.empty()) json["why_no_nccl"] = info.why_no_nccl;
  if (!info.why_no_gpu.empty()) json["why_no_gpu"] = info.why_no_gpu;
  json["devices"] = Json::array();
  for (const cuda::Gpu& gpu : info.gpus) {
    json["devices"].push_back({{"name", gpu.name},
                               {"compute_capability", Capability(gpu)},
                               {"memory_bytes", gpu.memory_bytes},
                               {"usable", gpu.usable},
                               {"peer_access", gpu.reaches}});
  }
  json["routes"] = Json::array();
  ForEachPair(info, [&](size_t a, size_t b) {
    json["routes"].push_back({{"devices", {a, b}}, {"route", CudaRoute(info, a, b)}});
  });
  return json;
}

void PrintJson(const Host* host, const Cuda* cuda) {
  Json json = {{"version", kVersion}, {"backends", {"host"}}};
  if (WhyCudaIsLeftOut().empty()) json["backends"].push_back("cuda");
  if (host != nullptr) {
    json["cores"] = host->cores;
    json["route"] = host->route;
    json["memory_bytes"] = host->total_bytes;
    json["available_bytes"] = host->available_bytes;
  }
  if (cuda != nullptr) json["cuda"] = CudaJson(*cuda);
  absl::PrintF("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// --- for people ----------------------------------------------------------------------------------

void PrintHost(const Host& host) {
  constexpr double kGiB = 1 << 30;
  absl::PrintF("host      as many devices as there are ranks, all in this machine's memory\n");
  absl::PrintF("  cores   %d\n", host.cores);
  absl::PrintF("  memory  %.1f GiB, %.1f GiB of it available\n",
               static_cast<double>(host.total_bytes) / kGiB,
               static_cast<double>(host.available_bytes) / kGiB);
  absl::PrintF("  route   %s\n", host.route);
}

void PrintPeers(const cuda::Info& info) {
  std::string head = "  peers  ";
  for (size_t peer = 0; peer < info.gpus.size(); ++peer) absl::StrAppendFormat(&head, " %3d", peer);
  absl::PrintF("%s   (whether a row's GPU reaches a column's memory)\n", head);
  for (size_t i = 0; i < info.gpus.size(); ++i) {
    absl::PrintF("     %3d ", i);
    for (size_t peer = 0; peer < info.gpus.size(); ++peer) {
      absl::PrintF(" %3s", i == peer ? "-" : info.gpus[i].reaches[peer] ? "yes" : "no");
    }
    absl::PrintF("\n");
  }
}

void PrintGpus(const cuda::Info& info) {
  for (size_t i = 0; i < info.gpus.size(); ++i) {
    const cuda::Gpu& gpu = info.gpus[i];
    absl::PrintF("  gpu %-3d %s, compute capability %s, %d MiB%s\n", i, gpu.name, Capability(gpu),
                 gpu.memory_bytes >> 20, gpu.usable ? "" : "; too old for mp");
  }
  if (info.gpus.size() < 2) return;
  PrintPeers(info);
  ForEachPair(info, [&](size_t a, size_t b) {
    absl::PrintF("  route   %d and %d: %s\n", a, b, CudaRoute(info, a, b));
  });
}

void PrintCuda(const Cuda& cuda) {
  if (!cuda.why_left_out.empty()) {
    absl::PrintF("cuda      left out: %s when this was built\n", cuda.why_left_out);
    return;
  }
  const cuda::Info& info = cuda.info;
  absl::PrintF("cuda      runtime %s, driver %s\n", info.runtime,
               info.driver.empty() ? "none" : info.driver);
  absl::PrintF("  nccl    %s\n", info.nccl.empty() ? "none: " + info.why_no_nccl : info.nccl);
  if (!info.why_no_gpu.empty()) absl::PrintF("  gpu     none: %s\n", info.why_no_gpu);
  PrintGpus(info);
}

absl::Status Run(const std::string& backend, bool json) {
  std::optional<Host> host;
  std::optional<Cuda> cuda;
  if (backend != "cuda") {
    host.emplace();
    MP_ASSIGN_OR_RETURN(host->route, HostRoute());
  }
  if (backend != "host") cuda.emplace();
  if (json) {
    PrintJson(host ? &*host : nullptr, cuda ? &*cuda : nullptr);
    return absl::OkStatus();
  }
  absl::PrintF("mp        %s\n", kVersion);
  absl::PrintF("backends  host%s\n", WhyCudaIsLeftOut().empty() ? ", cuda" : "");
  if (host) PrintHost(*host);
  if (cuda) PrintCuda(*cuda);
  return absl::OkStatus();
}

}  // namespace

Command AddInfo(CLI::App& app) {
  struct Options {
    std::string backend = "auto";
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* info = app.add_subcommand(
      "info", "Prints version, backends, devices, how data goes between them, and memory.");
  info->footer(
      "What cannot be had, for want of a driver or of NCCL, it says; that is no failure.  NCCL is\n"
      "the file that MP_NCCL_LIBRARY names, else the libnccl.so.2 that the dynamic linker finds.\n"
      "\n"
      "Examples:\n  mp info\n  mp info --backend=cuda --json");
  AddBackendFlag(*info, "What to tell of: host, cuda, or auto, which is both", options->backend);
  info->add_flag("--json", options->json, "Print one JSON object");
  return {info, [] { return absl::OkStatus(); },
          [options] { return Run(options->backend, options->json); }};
}

}  // namespace mp::command
