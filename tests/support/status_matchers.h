// What a test says about an absl::Status, or about an absl::StatusOr.
//
//   EXPECT_OK(region.AllReduce(x));
//   ASSERT_OK_AND_ASSIGN(mp::Buffer y, device.Allocate(mp::DType::kF32, {2, 3}));
//   EXPECT_THAT(status, KindIs(ErrorKind::kMismatch, HasSubstr("rank 1")));
#ifndef MP_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define MP_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mp/base/status.h"

namespace mp::test {

MATCHER(IsOk, "") {
  const absl::Status status = internal::StatusOf(arg);
  *result_listener << status.ToString();
  return status.ok();
}

MATCHER_P(KindIs, kind, "is of kind " + std::string(ErrorKindName(kind))) {
  const absl::Status status = internal::StatusOf(arg);
  *result_listener << "of kind " << ErrorKindName(KindOf(status)) << ": " << status.ToString();
  return !status.ok() && KindOf(status) == kind;
}

// `message` matches the text.
MATCHER_P2(KindIs, kind, message, "is of kind " + std::string(ErrorKindName(kind)) + " and says") {
  const absl::Status status = internal::StatusOf(arg);
  *result_listener << "of kind " << ErrorKindName(KindOf(status)) << ": " << status.ToString();
  return !status.ok() && KindOf(status) == kind &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

}  // namespace mp::test

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::mp::test::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::mp::test::IsOk())
#define ASSERT_OK_AND_ASSIGN(target, expression) \
  ASSERT_OK_AND_ASSIGN_IMPL_(MP_CONCAT_(mp_result_, __LINE__), target, expression)
#define ASSERT_OK_AND_ASSIGN_IMPL_(result, target, expression) \
  auto result = (expression);                                  \
  ASSERT_OK(result);                                           \
  target = *std::move(result)

#endif  // MP_TESTS_SUPPORT_STATUS_MATCHERS_H_
