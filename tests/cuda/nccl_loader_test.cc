// NCCL that is looked for when it is first called: every function hands its arguments on, in their
// order, and its result back; what is not found, or too old, is an error that says so.  Each case
// is a process of its own, since a process looks once.

#include <dlfcn.h>
#include <nccl.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace mp::cuda {
namespace {

std::string PathOf(const std::string& library) {
  return std::string(std::getenv("TEST_SRCDIR")) + "/" + std::getenv("TEST_WORKSPACE") +
         "/tests/cuda/" + library;
}

template <typename T>
T At(uintptr_t address) {
  return reinterpret_cast<T>(address);
}

// Ends the process with 0 where `check` has not failed, in which `library` is the NCCL.
template <typename Check>
void InProcessWith(const std::string& library, const Check& check) {
  EXPECT_EXIT(
      {
        setenv("MP_NCCL_LIBRARY", library.c_str(), 1);
        check();
        _exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

void ExpectForwarded() {
  const auto last_call = reinterpret_cast<const char* (*)()>(
      dlsym(dlopen(std::getenv("MP_NCCL_LIBRARY"), RTLD_NOW), "StandInLastCall"));
  const auto expect = [&](int result, int expected, const std::string& call) {
    EXPECT_EQ(result, expected) << call;
    EXPECT_EQ(last_call(), call);
  };
  const auto comm = At<ncclComm_t>(0xc0);
  const auto stream = At<cudaStream_t>(0x50);
  const auto type = static_cast<ncclDataType_t>(3);
  const auto op = static_cast<ncclRedOp_t>(2);
  int version = 0;
  expect(ncclGetVersion(&version), 100, "GetVersion");
  EXPECT_EQ(version, 22007);
  expect(ncclCommInitAll(At<ncclComm_t*>(0x1), 4, At<const int*>(0x2)), 101,
         "CommInitAll 0x1 4 0x2");
  expect(ncclCommSplit(comm, 5, 6, At<ncclComm_t*>(0x3), At<ncclConfig_t*>(0x4)), 102,
         "CommSplit 0xc0 5 6 0x3 0x4");
  expect(ncclCommDestroy(comm), 103, "CommDestroy 0xc0");
  expect(ncclCommAbort(comm), 104, "CommAbort 0xc0");
  expect(ncclCommGetAsyncError(comm, At<ncclResult_t*>(0x5)), 105, "CommGetAsyncError 0xc0 0x5");
  expect(ncclGroupStart(), 106, "GroupStart");
  expect(ncclGroupEnd(), 107, "GroupEnd");
  constexpr size_t kCount = (size_t{1} << 40) + 1;
  expect(ncclAllReduce(At<void*>(0x6), At<void*>(0x7), kCount, type, op, comm, stream), 108,
         "AllReduce 0x6 0x7 1099511627777 3 2 0xc0 0x50");
  expect(ncclReduce(At<void*>(0x6), At<void*>(0x7), kCount, type, op, 9, comm, stream), 109,
         "Reduce 0x6 0x7 1099511627777 3 2 9 0xc0 0x50");
  expect(ncclSend(At<void*>(0x6), kCount, type, 4, comm, stream), 112,
         "Send 0x6 1099511627777 3 4 0xc0 0x50");
  expect(ncclRecv(At<void*>(0x7), kCount, type, 5, comm, stream), 113,
         "Recv 0x7 1099511627777 3 5 0xc0 0x50");
  expect(ncclRedOpCreatePreMulSum(At<ncclRedOp_t*>(0x8), At<void*>(0x9), type,
                                  ncclScalarHostImmediate, comm),
         110, "RedOpCreatePreMulSum 0x8 0x9 3 1 0xc0");
  expect(ncclRedOpDestroy(op, comm), 111, "RedOpDestroy 2 0xc0");
  EXPECT_STREQ(ncclGetErrorString(ncclInternalError), "the stand-in's error");
  EXPECT_STREQ(last_call(), "GetErrorString 3");
  EXPECT_STREQ(ncclGetLastError(comm), "the stand-in's last error");
  EXPECT_STREQ(last_call(), "GetLastError 0xc0");
}

TEST(NcclLoaderDeathTest, HandsEveryCallOn) {
  InProcessWith(PathOf("libnccl_stand_in.so"), ExpectForwarded);
}

// No call of a library that is refused is made.
void ExpectMissing(const std::string& why) {
  int version = 7;
  EXPECT_EQ(ncclGetVersion(&version), ncclSystemError);
  EXPECT_EQ(version, 7);
  EXPECT_EQ(ncclGroupStart(), ncclSystemError);
  EXPECT_EQ(ncclCommInitAll(nullptr, 0, nullptr), ncclSystemError);
  EXPECT_STREQ(ncclGetErrorString(ncclSystemError), "NCCL is missing");
  EXPECT_EQ(ncclGetLastError(nullptr), why);
}

TEST(NcclLoaderDeathTest, NotFound) {
  InProcessWith("/nowhere/nccl", [] {
    ExpectMissing(
        "/nowhere/nccl: cannot open shared object file: No such file or directory (named by "
        "MP_NCCL_LIBRARY)");
  });
}

TEST(NcclLoaderDeathTest, TooOld) {
  const std::string old = PathOf("libnccl_old_stand_in.so");
  InProcessWith(
      old, [&] { ExpectMissing(old + " has no ncclCommSplit: NCCL 2.18 or newer is needed"); });
}

// Whether this machine has an NCCL or not, there is an answer, and a reason where it is no.
TEST(NcclLoaderDeathTest, OfThisMachine) {
  InProcessWith("", [] {
    int version = 0;
    if (ncclGetVersion(&version) == ncclSuccess) {
      EXPECT_GE(version, 2000);
    } else {
      ExpectMissing(ncclGetLastError(nullptr));
      EXPECT_NE(std::string(ncclGetLastError(nullptr)), "");
    }
  });
}

}  // namespace
}  // namespace mp::cuda
