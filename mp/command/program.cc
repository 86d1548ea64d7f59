#include "mp/command/program.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mp/command/command.h"
#include "mp/command/version.h"
#include "mp/files/printable.h"

namespace mp::command {
namespace {

constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;

constexpr char kFooter[] =
    "Examples:\n"
    "  mp embed --query='a happy person' lines.txt\n"
    "  mp gather --out=full.npy s0.npy s1.npy s2.npy s3.npy\n"
    "  mp reduce --op=sum --out=sum.npy p0.npy p1.npy\n"
    "  mp perf --ranks=4\n"
    "  mp gather --help\n"
    "Exit codes: 0 success, 1 failure of the work, 2 wrong usage.";

int Complain(absl::string_view command, absl::string_view message, int exit_code) {
  const std::string advice =
      exit_code == kWrongUsage ? absl::StrCat(" (see ", command, " --help)") : "";
  const std::string line =
      absl::StrCat(command, ": ", files::Printable(message, files::kLongestMessage), advice, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  return exit_code;
}

// Whether all that was printed has arrived.
int Finish(absl::string_view command) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return Complain(command, "what it has to say cannot be written to stdout", kFailure);
}

// The first argument of the form --flag=, null where there is none.  The parser would take the next
// argument for the value: an unset variable in a script would make an input the output.
const char* WithoutValue(int argc, char** argv) {
  for (int i = 1; i < argc && absl::string_view(argv[i]) != "--"; ++i) {
    if (absl::StartsWith(argv[i], "--") && absl::EndsWith(argv[i], "=")) return argv[i];
  }
  return nullptr;
}

// A file that shrinks while it is mapped, or a disk that fails below a mapping.
void OnLostPage(int) {
  constexpr char kLine[] =
      "mp: a file was truncated, or its disk failed, while it was in use; nothing was written\n";
  if (write(STDERR_FILENO, kLine, sizeof(kLine) - 1) < 0) _exit(kFailure);
  _exit(kFailure);
}

int Main(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error like a full disk
  signal(SIGBUS, OnLostPage);
  CLI::App app("Tensor-parallel operations: one process, a rank for each file or device.", "mp");
  app.set_version_flag("--version", std::string("mp ") + kVersion);
  app.footer(kFooter);
  const std::vector<Command> commands = {AddEmbed(app), AddGather(app), AddReduce(app),
                                         AddPerf(app), AddInfo(app)};
  const auto chosen = [&]() -> const Command* {
    for (const Command& command : commands) {
      if (command.app->parsed()) return &command;
    }
    return nullptr;
  };
  if (const char* argument = WithoutValue(argc, argv); argument != nullptr) {
    return Complain("mp", absl::StrCat(argument, " has no value behind the ="), kWrongUsage);
  }
  const auto name = [&] {
    return chosen() == nullptr ? "mp" : absl::StrCat("mp ", chosen()->app->get_name());
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return Finish(name());
  } catch (const CLI::ParseError& error) {
    return Complain(name(), error.what(), kWrongUsage);
  }
  if (chosen() == nullptr) return Complain("mp", "no subcommand is given", kWrongUsage);
  if (const absl::Status wrong = chosen()->check(); !wrong.ok()) {
    return Complain(name(), wrong.message(), kWrongUsage);
  }
  if (const absl::Status failure = chosen()->run(); !failure.ok()) {
    return Complain(name(), failure.message(), kFailure);
  }
  return Finish(name());
}

}  // namespace

int RunProgram(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mp: %s\n", error.what());
    return kFailure;
  }
}

}  // namespace mp::command
