// A descriptor is closed once, by whoever holds it last, and an error has file, act and cause.

#include "mp/files/system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "gtest/gtest.h"

namespace mp::files {
namespace {

bool IsOpen(int number) { return fcntl(number, F_GETFD) != -1; }

TEST(FileDescriptor, ClosesWithTheLastHolder) {
  EXPECT_FALSE(FileDescriptor().valid());
  const int a = open("/dev/null", O_RDONLY);
  const int b = open("/dev/null", O_RDONLY);
  {
    FileDescriptor first(a);
    FileDescriptor second(std::move(first));
    EXPECT_FALSE(first.valid());
    EXPECT_EQ(second.number(), a);
    second = FileDescriptor(b);
    EXPECT_EQ(second.number(), b);
    EXPECT_FALSE(IsOpen(a));
    EXPECT_TRUE(IsOpen(b));
  }
  EXPECT_FALSE(IsOpen(b));
}

TEST(SystemError, NamesFileActAndCause) {
  const absl::Status status = SystemError(EACCES, "a\nb", "cannot be opened");
  EXPECT_EQ(status.message(), "a\\nb: cannot be opened: Permission denied");
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace mp::files
