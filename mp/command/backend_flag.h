// --backend, as all subcommands that do work have it.
#ifndef MP_COMMAND_BACKEND_FLAG_H_
#define MP_COMMAND_BACKEND_FLAG_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace mp::command {

// `backend` holds the default, and outlives the parser.
void AddBackendFlag(CLI::App& app, std::string& backend);

// Unsupported: this program was built without it.
absl::Status CheckBackend(const std::string& backend);

}  // namespace mp::command

#endif  // MP_COMMAND_BACKEND_FLAG_H_
