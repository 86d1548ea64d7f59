// --backend and --devices, and the backend that they come to.
//
// `auto` is cuda where this build has it and the machine has a GPU for each rank, with NCCL when
// there are several, else the host.
#ifndef MP_COMMAND_BACKEND_FLAG_H_
#define MP_COMMAND_BACKEND_FLAG_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/backend.h"

namespace mp::command {

struct BackendFlags {
  std::string backend = "auto";
  std::string devices;  // as it was given: "0,1"; empty where it was not
};

// What the flags are stored in outlives the parser.  `description` says what each of auto, host and
// cuda means.
void AddBackendFlag(CLI::App& app, const std::string& description, std::string& backend);
// Both flags, for work on any backend.
void AddBackendFlags(CLI::App& app, BackendFlags& flags);

// What is wrong with the flags alone.
absl::Status CheckBackendFlags(const BackendFlags& flags);

// The GPUs of --devices, in order.  The flags have been checked.
std::vector<int> GpusOf(const BackendFlags& flags);

// Where the ranks of a World are: what World::Create takes.
struct Place {
  std::shared_ptr<Backend> backend;
  std::vector<int> devices;
};

// For so many ranks.  `threads` is for the host.  Unsupported, DeviceError: cuda is wanted by name
// and cannot be had.
absl::StatusOr<Place> OpenPlace(const BackendFlags& flags, int ranks, int threads);

}  // namespace mp::command

#endif  // MP_COMMAND_BACKEND_FLAG_H_
