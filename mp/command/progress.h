// A bar on stderr that shows how much of the work is done; nothing where stderr is no terminal.
//
//   Progress progress("gather", total_bytes, "12 MB", wanted);
//   progress.Add(bytes);      // the bar goes away with the object
//
// Threads. One at a time.
#ifndef MP_COMMAND_PROGRESS_H_
#define MP_COMMAND_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace mp::command {

class Progress {
 public:
  // `whole` is what `total` is called: "12 MB", "100 lines".
  Progress(absl::string_view label, int64_t total, absl::string_view whole, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const { return shown_; }
  void Add(int64_t amount);

 private:
  void Draw(int64_t percent);

  const std::string label_;
  const int64_t total_;
  const std::string whole_;
  const bool shown_;
  int64_t done_ = 0;
  int64_t drawn_ = -1;
};

}  // namespace mp::command

#endif  // MP_COMMAND_PROGRESS_H_
