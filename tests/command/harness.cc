#include "tests/command/harness.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mp::command {
namespace {

constexpr size_t kNpyHeader = 128;  // of all files here: no header is longer

std::string PathOf(const std::string& program) {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"), "/", program);
}

[[noreturn]] void Exec(std::string program, const std::vector<std::string>& arguments,
                       const std::string& folder, int out, int err, const RunOptions& options) {
  std::vector<char*> argv;
  std::vector<std::string> environment = options.environment;
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // `auto` is the host on every machine
  for (std::string& variable : environment) putenv(variable.data());
  argv.push_back(program.data());
  std::vector<std::string> copies = arguments;
  for (std::string& copy : copies) argv.push_back(copy.data());
  argv.push_back(nullptr);
  if (options.largest_file >= 0) {
    const auto limit = static_cast<rlim_t>(options.largest_file);
    const rlimit limits = {limit, limit};
    setrlimit(RLIMIT_FSIZE, &limits);
  }
  dup2(open(options.in.c_str(), O_RDONLY), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (chdir(folder.c_str()) == 0) execv(argv[0], argv.data());
  _exit(127);
}

// All that is written to the other end of a pipe or terminal until it is closed.
std::string ReadAll(int file) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(file, buffer, sizeof(buffer));
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) break;  // a terminal ends with EIO
  }
  close(file);
  return text;
}

std::map<std::string, std::string> Snapshot(const files::TempFolder& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    const std::string path = entry.path();
    const bool readable = entry.is_regular_file() && access(path.c_str(), R_OK) == 0;
    files[path] = readable ? files::ReadFile(path) : "";
  }
  return files;
}

}  // namespace

Result CommandTest::Run(const Arguments& arguments, const RunOptions& options) {
  // stdout goes to a file, so that only one stream is read while the program runs.
  const std::string out_path =
      options.out.empty() ? absl::StrCat(testing::TempDir(), "stdout.", getpid()) : options.out;
  const int out = open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  EXPECT_GE(out, 0) << out_path;
  int err[2];
  if (options.terminal) {
    EXPECT_EQ(openpty(&err[0], &err[1], nullptr, nullptr, nullptr), 0);
  } else {
    EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
  }
  const pid_t child = fork();
  if (child == 0) Exec(PathOf(program_), arguments, folder_.path(), out, err[1], options);
  close(out);
  close(err[1]);
  Result result;
  result.err = ReadAll(err[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (options.out.empty()) {
    result.out = files::ReadFile(out_path);
    unlink(out_path.c_str());
  }
  return result;
}

Result CommandTest::Succeeds(const Arguments& arguments, const RunOptions& options) {
  Result result = Run(arguments, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result;
}

void CommandTest::Fails(int exit_code, const std::string& text, const Arguments& arguments,
                        const RunOptions& options) {
  const auto before = Snapshot(folder_);
  const Result result = Run(arguments, options);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(absl::StrContains(result.err, text)) << result.err << "lacks: " << text;
  EXPECT_TRUE(absl::StartsWith(result.err, "mp")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(absl::EndsWith(result.err, "\n")) << result.err;
  const auto after = Snapshot(folder_);
  EXPECT_TRUE(after == before) << "the folder has changed: " << after.size() << " files, before "
                               << before.size();
}

std::string CommandTest::NpyData(const std::string& name) {
  const std::string file = files::ReadFile(folder_ / name);
  EXPECT_GE(file.size(), kNpyHeader);
  return file.substr(std::min(kNpyHeader, file.size()));
}

std::string CommandTest::NpyType(const std::string& name) {
  const std::string file = files::ReadFile(folder_ / name);
  const std::string begin = "{'descr': '";
  const std::string middle = "', 'fortran_order': False, 'shape': ";
  const std::string end = ", }";
  const size_t descr = file.find(begin) + begin.size();
  const size_t order = file.find(middle);
  const size_t last = file.find(end);
  EXPECT_TRUE(order != std::string::npos && last != std::string::npos) << file;
  const size_t shape = order + middle.size();
  return absl::StrCat(file.substr(descr, order - descr), " ", file.substr(shape, last - shape));
}

}  // namespace mp::command
