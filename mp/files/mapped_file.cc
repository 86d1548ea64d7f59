#include "mp/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "mp/base/status.h"
#include "mp/files/printable.h"
#include "mp/files/system.h"

namespace mp::files {

std::optional<FileId> FileIdOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileId{info.st_dev, info.st_ino};
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: a pipe without a writer must not block; it is refused below.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return SystemError(errno, path, "cannot be opened");
  struct stat info;
  if (fstat(file.number(), &info) != 0) return SystemError(errno, path, "cannot be examined");
  if (S_ISDIR(info.st_mode)) return InvalidArgument(Printable(path), ": is a folder, not a file");
  if (!S_ISREG(info.st_mode)) return InvalidArgument(Printable(path), ": is not a regular file");
  if (info.st_size == 0) return InvalidArgument(Printable(path), ": is empty");
  const auto size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (data == MAP_FAILED) return SystemError(errno, path, "cannot be mapped into memory");
  return MappedFile(path, absl::string_view(static_cast<const char*>(data), size),
                    FileId{info.st_dev, info.st_ino});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, absl::string_view())),
      id_(other.id_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(id_, other.id_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace mp::files
