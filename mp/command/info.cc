// mp info: what this program and this machine have to offer.

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"
#include "mp/command/command.h"
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

absl::Status Run(bool json) {
  MP_ASSIGN_OR_RETURN(const std::string route, HostRoute());
  const int cores = sync::CoreCount();
  const int64_t total = MemoryBytes("MemTotal");
  const int64_t available = MemoryBytes("MemAvailable");
  if (json) {
    const nlohmann::ordered_json object = {{"version", kVersion},   {"backends", {"host"}},
                                           {"cores", cores},        {"route", route},
                                           {"memory_bytes", total}, {"available_bytes", available}};
    absl::PrintF("%s\n", object.dump());
    return absl::OkStatus();
  }
  absl::PrintF("mp        %s\n", kVersion);
  absl::PrintF("backends  host (cuda: not built in)\n");
  absl::PrintF("devices   host: as many as there are ranks, all in this machine's memory\n");
  absl::PrintF("cores     %d\n", cores);
  absl::PrintF("route     %s\n", route);
  constexpr double kGiB = 1 << 30;
  absl::PrintF("memory    %.1f GiB, %.1f GiB of it available\n", static_cast<double>(total) / kGiB,
               static_cast<double>(available) / kGiB);
  return absl::OkStatus();
}

}  // namespace

Command AddInfo(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* info =
      app.add_subcommand("info", "Prints version, backends, cores, routes and memory.");
  info->footer("Examples:\n  mp info\n  mp info --json");
  info->add_flag("--json", *json, "Print one JSON object");
  return {info, [] { return absl::OkStatus(); }, [json] { return Run(*json); }};
}

}  // namespace mp::command
