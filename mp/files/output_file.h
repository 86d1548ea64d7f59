// A file of known size that is filled as memory and gets its name when it is whole.
//
//   MP_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create("full.npy", 288, {}));
//   std::memcpy(file.data(), ...);
//   return file.Commit();
//
// Until Commit the file has no name (where the file system has no nameless files, a hidden one
// beside the target), and without Commit nothing is left of it.
//
// Errors.    Name the file.  Space is reserved by Create, so that a full disk is an error there and
//            not a signal later; Commit waits for the disk, so that errors of writing are told.
// Threads.   The memory may be written by any number; the calls are for one at a time.
// Ownership. Move-only; data() lives until Commit.
#ifndef MP_FILES_OUTPUT_FILE_H_
#define MP_FILES_OUTPUT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/files/system.h"

namespace mp::files {

struct OutputOptions {
  // Whether a regular file of that name is replaced, or a link; what the link led to stays.
  bool force = false;
  // Takes a hidden name from the start, as on file systems without nameless files.
  bool hidden_name = false;
};

class OutputFile {
 public:
  // size_bytes > 0.  AlreadyExists: something has the name and is not to be replaced.  What is
  // neither a regular file nor a link to one, or to nothing, is never replaced.
  static absl::StatusOr<OutputFile> Create(const std::string& path, int64_t size_bytes,
                                           const OutputOptions& options);

  // Whether Create would refuse the name, for who learns the size only after much work.
  static absl::Status Check(const std::string& path, const OutputOptions& options);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  const std::string& path() const { return path_; }
  char* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

  // Gives the file its name, atomically.  The memory is gone afterwards, on errors too.
  absl::Status Commit();

 private:
  OutputFile() = default;
  absl::Status MakeNameless(const std::string& folder);
  absl::Status MakeHidden(const std::string& folder);
  absl::Status Rename();
  void Unmap();

  std::string path_;
  std::string hidden_;  // its present name; empty while it has none
  bool force_ = false;
  FileDescriptor file_;
  char* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

}  // namespace mp::files

#endif  // MP_FILES_OUTPUT_FILE_H_
