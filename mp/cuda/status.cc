#include "mp/cuda/status.h"

#include "absl/strings/str_cat.h"

namespace mp::cuda {
namespace {

// Errors after which every call of this process fails in the same way.
bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status ToStatus(cudaError_t result, absl::string_view call) {
  if (result == cudaSuccess) return absl::OkStatus();
  Forgive(result);
  return MakeError(
      IsSticky(result) ? ErrorKind::kDeviceLost : ErrorKind::kDeviceError,
      absl::StrCat(call, ": ", cudaGetErrorString(result), " (", cudaGetErrorName(result), ")"));
}

absl::Status ToStatus(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess) return absl::OkStatus();
  const bool lost = result == ncclUnhandledCudaError && IsSticky(cudaPeekAtLastError());
  const char* last = ncclGetLastError(nullptr);
  return MakeError(
      lost ? ErrorKind::kDeviceLost : ErrorKind::kDeviceError,
      absl::StrCat(call, ": ", ncclGetErrorString(result),
                   last != nullptr && *last != '\0' ? "; " : "", last != nullptr ? last : ""));
}

Failure ToFailure(const absl::Status& status) {
  return {KindOf(status), std::string(status.message())};
}

}  // namespace mp::cuda
