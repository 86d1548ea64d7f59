// The two things that every use of the operating system's files needs: a descriptor that closes
// itself, and an error that names the file.
#ifndef MP_FILES_SYSTEM_H_
#define MP_FILES_SYSTEM_H_

#include <unistd.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "mp/files/printable.h"

namespace mp::files {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (valid()) close(number_);
  }

  bool valid() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_ = -1;
};

// "full.npy: cannot be written: No space left on device".
inline absl::Status SystemError(int error, const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(error, absl::StrCat(Printable(path), ": ", what));
}

}  // namespace mp::files

#endif  // MP_FILES_SYSTEM_H_
