#include "mp/files/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/files/printable.h"

namespace mp::files {
namespace {

constexpr int kNamesTried = 1000;

absl::Status CheckTarget(const std::string& path, bool force) {
  if (path.empty() || path.back() == '/') {
    return InvalidArgument("\"", Printable(path), "\": names no file");
  }
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : SystemError(errno, path, "cannot be written");
  }
  if (S_ISDIR(info.st_mode)) return InvalidArgument(Printable(path), ": is a folder, not a file");
  if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
    return InvalidArgument(Printable(path), ": is not a regular file and is not replaced");
  }
  struct stat target;
  if (S_ISLNK(info.st_mode) && stat(path.c_str(), &target) == 0 && !S_ISREG(target.st_mode)) {
    return InvalidArgument(Printable(path),
                           ": leads to what is not a regular file and is not replaced");
  }
  if (force) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(Printable(path), ": exists already; --force replaces it"));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The i-th of the names to try in `folder`.
std::string HiddenName(const std::string& folder, int i) {
  return absl::StrCat(folder, "/.mp-", getpid(), "-", i, ".tmp");
}

std::string ProcName(int file) { return absl::StrCat("/proc/self/fd/", file); }

int LinkNameless(int file, const std::string& name) {
  return linkat(AT_FDCWD, ProcName(file).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
}

}  // namespace

absl::Status OutputFile::Check(const std::string& path, const OutputOptions& options) {
  return CheckTarget(path, options.force);
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path, int64_t size_bytes,
                                              const OutputOptions& options) {
  MP_RETURN_IF_ERROR(CheckTarget(path, options.force));
  const std::string folder = FolderOf(path);
  OutputFile output;
  output.path_ = path;
  output.force_ = options.force;
  if (!options.hidden_name) MP_RETURN_IF_ERROR(output.MakeNameless(folder));
  if (!output.file_.valid()) MP_RETURN_IF_ERROR(output.MakeHidden(folder));
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(output.file_.number(), 0, size_bytes);
  if (error != 0) {
    return SystemError(error, path, absl::StrCat("cannot reserve ", size_bytes, " bytes"));
  }
  void* data = mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                    output.file_.number(), 0);
  if (data == MAP_FAILED) return SystemError(errno, path, "cannot be mapped into memory");
  output.data_ = static_cast<char*>(data);
  output.size_bytes_ = size_bytes;
  return output;
}

// Leaves file_ invalid where the system has no nameless files.
absl::Status OutputFile::MakeNameless(const std::string& folder) {
  file_ = FileDescriptor(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  if (!file_.valid()) {
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) return absl::OkStatus();
    return SystemError(errno, path_, "cannot be created");
  }
  // Without /proc it could not be named later.
  if (access(ProcName(file_.number()).c_str(), F_OK) != 0) file_ = FileDescriptor();
  return absl::OkStatus();
}

absl::Status OutputFile::MakeHidden(const std::string& folder) {
  for (int i = 0; i < kNamesTried; ++i) {
    const std::string name = HiddenName(folder, i);
    file_ = FileDescriptor(open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666));
    if (file_.valid()) {
      hidden_ = name;
      return absl::OkStatus();
    }
    if (errno != EEXIST) break;
  }
  return SystemError(errno, path_, "cannot be created");
}

absl::Status OutputFile::Commit() {
  Unmap();
  if (fsync(file_.number()) != 0) return SystemError(errno, path_, "cannot be written");
  if (hidden_.empty() && !force_) {
    // Fails by itself where the name was taken in the meantime.
    if (LinkNameless(file_.number(), path_) == 0) return absl::OkStatus();
    return SystemError(errno, path_, "cannot be named");
  }
  for (int i = 0; hidden_.empty(); ++i) {
    const std::string name = HiddenName(FolderOf(path_), i);
    if (LinkNameless(file_.number(), name) == 0) {
      hidden_ = name;
    } else if (errno != EEXIST || i == kNamesTried) {
      return SystemError(errno, path_, "cannot be named");
    }
  }
  return Rename();
}

// From the hidden name to the target's.
absl::Status OutputFile::Rename() {
  int result =
      renameat2(AT_FDCWD, hidden_.c_str(), AT_FDCWD, path_.c_str(), force_ ? 0 : RENAME_NOREPLACE);
  if (result != 0 && !force_ && errno == EINVAL) {  // a file system without RENAME_NOREPLACE
    MP_RETURN_IF_ERROR(CheckTarget(path_, force_));
    result = rename(hidden_.c_str(), path_.c_str());
  }
  if (result != 0) return SystemError(errno, path_, "cannot be named");
  hidden_.clear();
  return absl::OkStatus();
}

void OutputFile::Unmap() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_bytes_));
  data_ = nullptr;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      hidden_(std::exchange(other.hidden_, std::string())),
      force_(other.force_),
      file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(other.size_bytes_) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(hidden_, other.hidden_);
  std::swap(force_, other.force_);
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

OutputFile::~OutputFile() {
  Unmap();
  if (!hidden_.empty()) unlink(hidden_.c_str());
}

}  // namespace mp::files
