// What a CUDA or NCCL call answers becomes a Status that carries the call's text, and leaves
// nothing behind in the thread's last error.
#include "mp/cuda/status.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <string>

#include "mp/base/status.h"
#include "tests/fake/machine.h"

namespace mp::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Status, SuccessIsOk) {
  fake::Machine machine({});
  EXPECT_EQ(MP_CUDA(cudaSetDevice(0)), absl::OkStatus());
  EXPECT_EQ(MP_CUDA(ncclGroupStart()), absl::OkStatus());
  EXPECT_EQ(MP_CUDA(ncclGroupEnd()), absl::OkStatus());
}

TEST(Status, CarriesTheCallAndClearsTheLastError) {
  fake::Machine machine({});
  const absl::Status status = MP_CUDA(cudaSetDevice(9));
  EXPECT_EQ(KindOf(status), ErrorKind::kDeviceError);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cudaSetDevice(9)"), HasSubstr("cudaErrorInvalidDevice")));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(Status, ThoseThatCudaRepeatsForEverAreDeviceLost) {
  EXPECT_EQ(KindOf(ToStatus(cudaErrorIllegalAddress, "call")), ErrorKind::kDeviceLost);
  EXPECT_EQ(KindOf(ToStatus(cudaErrorLaunchTimeout, "call")), ErrorKind::kDeviceLost);
  EXPECT_EQ(KindOf(ToStatus(cudaErrorMemoryAllocation, "call")), ErrorKind::kDeviceError);
}

TEST(Status, OfNcclCarriesItsLastMessage) {
  fake::Machine machine({});
  ncclComm_t comms[2];
  const int devices[] = {0, 0};
  const absl::Status status = MP_CUDA(ncclCommInitAll(comms, 2, devices));
  EXPECT_EQ(KindOf(status), ErrorKind::kDeviceError);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ncclCommInitAll(comms, 2, devices)"), HasSubstr("invalid usage"),
                    HasSubstr("duplicate device")));
}

TEST(Status, AsAFailure) {
  const Failure failure = ToFailure(ToStatus(cudaErrorIllegalAddress, "call"));
  EXPECT_EQ(failure.kind, ErrorKind::kDeviceLost);
  EXPECT_THAT(failure.message, HasSubstr("call"));
}

}  // namespace
}  // namespace mp::cuda
