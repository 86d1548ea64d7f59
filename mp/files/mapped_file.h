// A file's bytes as read-only memory, read from disk where they are looked at and nowhere else.
//
//   MP_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open("s0.npy"));
//   absl::string_view bytes = file.bytes();
//
// Errors.    Name the file.  A file that somebody truncates while it is mapped is beyond help: to
//            look at what is gone raises SIGBUS.
// Threads.   Reading from any number.
// Ownership. Move-only; bytes() lives as long as the MappedFile.
#ifndef MP_FILES_MAPPED_FILE_H_
#define MP_FILES_MAPPED_FILE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mp::files {

// Tells one file from all others, whatever the names by which it is reached.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;

  friend bool operator==(const FileId&, const FileId&) = default;
};

// The file that `path` leads to, links followed; nothing where there is none.
std::optional<FileId> FileIdOf(const std::string& path);

class MappedFile {
 public:
  // Fails where the file is missing, unreadable, empty, or no regular file; never blocks on a pipe.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  absl::string_view bytes() const { return bytes_; }
  FileId id() const { return id_; }

 private:
  MappedFile(std::string path, absl::string_view bytes, FileId id)
      : path_(std::move(path)), bytes_(bytes), id_(id) {}

  std::string path_;
  absl::string_view bytes_;
  FileId id_;
};

}  // namespace mp::files

#endif  // MP_FILES_MAPPED_FILE_H_
