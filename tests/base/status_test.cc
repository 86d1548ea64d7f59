// Kinds survive as statuses are copied and passed on, and the macros pass them on.

#include "mp/base/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "tests/support/status_matchers.h"

namespace mp::test {
namespace {

using ::testing::HasSubstr;

TEST(ErrorKind, HasTheStatusCodeOfTheTable) {
  const std::pair<ErrorKind, absl::StatusCode> rows[] = {
      {ErrorKind::kInvalidArgument, absl::StatusCode::kInvalidArgument},
      {ErrorKind::kMismatch, absl::StatusCode::kAborted},
      {ErrorKind::kAbsentShard, absl::StatusCode::kDeadlineExceeded},
      {ErrorKind::kDeviceError, absl::StatusCode::kInternal},
      {ErrorKind::kDeviceLost, absl::StatusCode::kInternal},
      {ErrorKind::kUserException, absl::StatusCode::kUnknown},
      {ErrorKind::kCancelled, absl::StatusCode::kCancelled},
      {ErrorKind::kClosed, absl::StatusCode::kFailedPrecondition},
      {ErrorKind::kUsageError, absl::StatusCode::kFailedPrecondition},
      {ErrorKind::kUnsupported, absl::StatusCode::kUnimplemented},
  };
  std::set<std::string> names;
  for (const auto& [kind, code] : rows) {
    const absl::Status status = MakeError(kind, "what happened");
    EXPECT_EQ(status.code(), code) << ErrorKindName(kind);
    EXPECT_EQ(KindOf(status), kind);
    EXPECT_EQ(status.message(), "what happened");
    const absl::Status copy = status;
    EXPECT_EQ(KindOf(copy), kind);
    names.emplace(ErrorKindName(kind));
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(ErrorKindName(ErrorKind::kAbsentShard), "AbsentShard");
}

TEST(ErrorKind, IsNoneForWhatOthersMade) {
  EXPECT_EQ(KindOf(absl::OkStatus()), ErrorKind::kNone);
  EXPECT_EQ(KindOf(absl::AbortedError("by hand")), ErrorKind::kNone);
  absl::Status strange = absl::AbortedError("by hand");
  strange.SetPayload("mp/error-kind", absl::Cord("Rain"));
  EXPECT_EQ(KindOf(strange), ErrorKind::kNone);
}

TEST(Status, IsMadeFromParts) {
  EXPECT_THAT(InvalidArgument("rank ", 3, " of ", 2),
              KindIs(ErrorKind::kInvalidArgument, "rank 3 of 2"));
  EXPECT_THAT(Unsupported("a sum of ", "bools"), KindIs(ErrorKind::kUnsupported, "a sum of bools"));
  EXPECT_THAT(UsageError("not now"), KindIs(ErrorKind::kUsageError, "not now"));
}

TEST(Failure, MakesAStatusForEveryoneWhoAsks) {
  EXPECT_OK(Failure().ToStatus());
  EXPECT_FALSE(Failure().failed());
  const Failure failure{ErrorKind::kMismatch, "ranks disagree"};
  EXPECT_TRUE(failure.failed());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(failure.ToStatus(), KindIs(ErrorKind::kMismatch, "ranks disagree"));
  }
}

absl::StatusOr<std::unique_ptr<int>> Make(bool well) {
  if (!well) return InvalidArgument("no");
  return std::make_unique<int>(7);
}

absl::StatusOr<int> Take(bool status_well, bool value_well, int& evaluations) {
  const auto count = [&](bool well) -> absl::Status {
    ++evaluations;
    return well ? absl::OkStatus() : UsageError("not here");
  };
  MP_RETURN_IF_ERROR(count(status_well));
  MP_RETURN_IF_ERROR(Make(true));  // a StatusOr, whose value is dropped
  MP_ASSIGN_OR_RETURN(const std::unique_ptr<int> value, Make(value_well));
  std::unique_ptr<int> other;
  MP_ASSIGN_OR_RETURN(other, Make(true));
  return *value + *other;
}

TEST(Macros, PassErrorsOnAndTakeValuesOut) {
  int evaluations = 0;
  EXPECT_EQ(Take(true, true, evaluations).value(), 14);
  EXPECT_EQ(evaluations, 1);
  EXPECT_THAT(Take(false, true, evaluations), KindIs(ErrorKind::kUsageError, "not here"));
  EXPECT_THAT(Take(true, false, evaluations), KindIs(ErrorKind::kInvalidArgument, "no"));
}

}  // namespace
}  // namespace mp::test
