#include "mp/command/backend_flag.h"

#include "mp/base/status.h"

namespace mp::command {

void AddBackendFlag(CLI::App& app, std::string& backend) {
  app.add_option("--backend", backend, "Where to run: auto, host or cuda")
      ->check(CLI::IsMember({"auto", "host", "cuda"}))
      ->type_name("NAME")
      ->capture_default_str();
}

absl::Status CheckBackend(const std::string& backend) {
  if (backend != "cuda") return absl::OkStatus();
  return Unsupported(
      "--backend=cuda: this program was built without CUDA; --backend=host works everywhere");
}

}  // namespace mp::command
