// Errors of mp: an absl::Status that carries a kind, so that callers can tell apart what a
// status code alone cannot, and the two macros that pass errors on.
//
//   MP_RETURN_IF_ERROR(rank.region().AllReduce(x));
//   MP_ASSIGN_OR_RETURN(mp::Buffer y, rank.device().Allocate(mp::DType::kF32, {8, 1024}));
//   if (mp::KindOf(status) == mp::ErrorKind::kMismatch) ...
//
// Threads. Functions are pure. A Status is made anew for each thread that needs one.
#ifndef MP_BASE_STATUS_H_
#define MP_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mp {

// What went wrong, in the order of mp/DESIGN.md's table of errors.
enum class ErrorKind {
  kNone,             // OK, or a status that mp did not make
  kInvalidArgument,  // this call is wrong; it had no effect
  kMismatch,         // ranks disagree; every rank gets it, nothing was launched
  kAbsentShard,      // a rank never came, by deadline or by proof
  kDeviceError,      // a device, memory or thread failed
  kDeviceLost,       // CUDA is lost to this process
  kUserException,    // code of the user threw
  kCancelled,
  kClosed,
  kUsageError,   // a call at a time or from a place where it is not allowed
  kUnsupported,  // understood, and refused by name
};

// The kind's name as messages print it: "Mismatch".
absl::string_view ErrorKindName(ErrorKind kind);

// The kind of `status`; kNone where it is OK or not made by mp.
ErrorKind KindOf(const absl::Status& status);

// What the ranks concerned had posted last when the error arose, in one line (mp/flight.h); ""
// where that says nothing about it.  Not part of the message.
std::string RecentOf(const absl::Status& status);

// A status of this kind with the status code that belongs to the kind.
absl::Status MakeError(ErrorKind kind, absl::string_view message, absl::string_view recent = "");

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return MakeError(ErrorKind::kInvalidArgument, absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status Unsupported(const Parts&... parts) {
  return MakeError(ErrorKind::kUnsupported, absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status UsageError(const Parts&... parts) {
  return MakeError(ErrorKind::kUsageError, absl::StrCat(parts...));
}

// The first cause of a failure, as it is kept for later callers.  Each of them gets a Status of
// its own (absl::Status counts its references in a way that thread checkers cannot follow).
struct Failure {
  ErrorKind kind = ErrorKind::kNone;
  std::string message;
  std::string recent;  // as RecentOf

  bool failed() const { return kind != ErrorKind::kNone; }
  absl::Status ToStatus() const {
    return failed() ? MakeError(kind, message, recent) : absl::OkStatus();
  }
  // The same with something behind the message.
  Failure With(absl::string_view more) const {
    return Failure{kind, absl::StrCat(message, more), recent};
  }
};

namespace internal {
inline absl::Status StatusOf(absl::Status status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}
}  // namespace internal

}  // namespace mp

#define MP_RETURN_IF_ERROR(expression)                                                    \
  do {                                                                                    \
    if (absl::Status mp_status = ::mp::internal::StatusOf(expression); !mp_status.ok()) { \
      return mp_status;                                                                   \
    }                                                                                     \
  } while (false)

#define MP_CONCAT_INNER_(a, b) a##b
#define MP_CONCAT_(a, b) MP_CONCAT_INNER_(a, b)
#define MP_ASSIGN_OR_RETURN(target, expression) \
  MP_ASSIGN_OR_RETURN_IMPL_(MP_CONCAT_(mp_result_, __LINE__), target, expression)
#define MP_ASSIGN_OR_RETURN_IMPL_(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return result.status();                   \
  target = *std::move(result)

#endif  // MP_BASE_STATUS_H_
