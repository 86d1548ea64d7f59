#include "mp/base/status.h"

#include <array>
#include <optional>

#include "absl/strings/cord.h"

namespace mp {
namespace {

constexpr absl::string_view kPayloadUrl = "mp/error-kind";
constexpr absl::string_view kRecentUrl = "mp/recent";

struct KindRow {
  ErrorKind kind;
  absl::string_view name;
  absl::StatusCode code;
};

constexpr std::array<KindRow, 11> kKinds{{
    {ErrorKind::kNone, "None", absl::StatusCode::kUnknown},
    {ErrorKind::kInvalidArgument, "InvalidArgument", absl::StatusCode::kInvalidArgument},
    {ErrorKind::kMismatch, "Mismatch", absl::StatusCode::kAborted},
    {ErrorKind::kAbsentShard, "AbsentShard", absl::StatusCode::kDeadlineExceeded},
    {ErrorKind::kDeviceError, "DeviceError", absl::StatusCode::kInternal},
    {ErrorKind::kDeviceLost, "DeviceLost", absl::StatusCode::kInternal},
    {ErrorKind::kUserException, "UserException", absl::StatusCode::kUnknown},
    {ErrorKind::kCancelled, "Cancelled", absl::StatusCode::kCancelled},
    {ErrorKind::kClosed, "Closed", absl::StatusCode::kFailedPrecondition},
    {ErrorKind::kUsageError, "UsageError", absl::StatusCode::kFailedPrecondition},
    {ErrorKind::kUnsupported, "Unsupported", absl::StatusCode::kUnimplemented},
}};

const KindRow& RowOf(ErrorKind kind) { return kKinds[static_cast<size_t>(kind)]; }

}  // namespace

absl::string_view ErrorKindName(ErrorKind kind) { return RowOf(kind).name; }

ErrorKind KindOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return ErrorKind::kNone;
  for (const KindRow& row : kKinds) {
    if (*payload == row.name) return row.kind;
  }
  return ErrorKind::kNone;
}

std::string RecentOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRecentUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

absl::Status MakeError(ErrorKind kind, absl::string_view message, absl::string_view recent) {
  absl::Status status(RowOf(kind).code, message);
  status.SetPayload(kPayloadUrl, absl::Cord(RowOf(kind).name));
  if (!recent.empty()) status.SetPayload(kRecentUrl, absl::Cord(recent));
  return status;
}

}  // namespace mp
