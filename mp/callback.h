// Code of the application that mp runs in the middle of its own work, a kernel on the host or the
// log: it must not wait for mp, which may wait for it.
//
//   const Callback callback;  // around the call
//   MP_RETURN_IF_ERROR(Callback::CheckMayWait("World::Close"));  // at a door that waits
//
// Threads. It is its thread's.  The innermost of a Callback and a Wait is what counts.
#ifndef MP_CALLBACK_H_
#define MP_CALLBACK_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mp/base/status.h"
#include "mp/base/sync.h"

namespace mp {

// What a thread does inside mp; they are nested.
class Frame {
 public:
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 protected:
  enum class Kind { kWait, kCallback };
  explicit Frame(Kind kind) : kind_(kind), outer_(std::exchange(sync::ThreadPointer(), this)) {}
  ~Frame() { sync::ThreadPointer() = outer_; }
  // The innermost of the calling thread, where it is of this kind; else null.
  static Frame* Innermost(Kind kind) {
    auto* frame = static_cast<Frame*>(sync::ThreadPointer());
    return frame != nullptr && frame->kind_ == kind ? frame : nullptr;
  }

 private:
  const Kind kind_;
  void* const outer_;
};

class Callback : private Frame {
 public:
  Callback() : Frame(Kind::kCallback) {}

  static bool Runs() { return Innermost(Kind::kCallback) != nullptr; }
  // UsageError: the calling thread runs one.
  static absl::Status CheckMayWait(absl::string_view call) {
    if (!Runs()) return absl::OkStatus();
    return UsageError(call, " in a kernel or in the log, which must not wait for mp");
  }
};

}  // namespace mp

#endif  // MP_CALLBACK_H_
