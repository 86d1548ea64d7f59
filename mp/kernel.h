// User compute, written once: a function object with a host body and, where it shall run on CUDA
// too, a launcher that gets the native stream.
//
//   struct Scale {
//     mp::TensorView x;
//     float by;
//     void operator()() const;                                 // the host body
//     absl::Status LaunchOn(const mp::NativeStream& s) const;  // optional: queues it on s.handle
//     static constexpr char kName[] = "Scale";                 // optional: its name in traces
//   };
//   MP_RETURN_IF_ERROR(rank.stream().Launch(Scale{x, 2}));
//
// The host body returns nothing or an absl::Status.  It runs after everything queued on the stream
// before it, on any thread, and must not wait for mp: a call that could is a UsageError there.  A
// function that the application gives to CUDA itself is not known to mp.  What it throws is caught
// and becomes a UserException of the stream.
#ifndef MP_KERNEL_H_
#define MP_KERNEL_H_

#include <functional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mp/base/status.h"

namespace mp {

// A stream of the platform below, for code that speaks to it directly.
struct NativeStream {
  void* handle = nullptr;  // a cudaStream_t
  int device = -1;         // CUDA's own number of the device
};

class Kernel {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, Kernel>>>
  Kernel(F body)  // NOLINT: any such object is a kernel
      : launcher_(LauncherOf(body)), host_(HostOf(std::move(body))), name_(NameOf<F>()) {}

  // The object's kName; "kernel" where it has none.
  absl::string_view name() const { return name_; }
  // Runs the host body.
  absl::Status RunOnHost() const { return host_(); }
  // Queues the work on a native stream.  Unsupported where the object has no launcher.
  absl::Status LaunchOn(const NativeStream& stream) const {
    if (!launcher_) return Unsupported("this kernel has a host body only, no LaunchOn");
    return launcher_(stream);
  }

 private:
  template <typename F>
  static std::function<absl::Status()> HostOf(F body) {
    if constexpr (std::is_void_v<std::invoke_result_t<const F&>>) {
      return [body = std::move(body)] { return body(), absl::OkStatus(); };
    } else {
      return std::function<absl::Status()>(std::move(body));
    }
  }
  template <typename F>
  static std::function<absl::Status(const NativeStream&)> LauncherOf(const F& body) {
    if constexpr (requires(const F& f, const NativeStream& s) { f.LaunchOn(s); }) {
      return [body](const NativeStream& stream) { return body.LaunchOn(stream); };
    } else {
      return nullptr;
    }
  }
  template <typename F>
  static constexpr absl::string_view NameOf() {
    if constexpr (requires { absl::string_view(F::kName); }) {
      return F::kName;
    } else {
      return "kernel";
    }
  }

  std::function<absl::Status(const NativeStream&)> launcher_;
  std::function<absl::Status()> host_;
  absl::string_view name_;
};

}  // namespace mp

#endif  // MP_KERNEL_H_
