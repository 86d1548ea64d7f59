#include "mp/cuda/status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "mp/base/sync.h"

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

// The first of them in this process; null while there is none.
sync::Atomic<const std::string*> first_loss{nullptr};

void Lose(absl::string_view cause) {
  if (first_loss.load(sync::kAcquire) != nullptr) return;
  const std::string* none = nullptr;
  auto* text = new std::string(cause);
  if (!first_loss.compare_exchange_strong(none, text, sync::kAcqRel)) delete text;
}

absl::Status Told(bool lost, const std::string& text) {
  if (lost) Lose(text);
  return MakeError(lost ? ErrorKind::kDeviceLost : ErrorKind::kDeviceError, text);
}

}  // namespace

absl::Status CheckNotLost() {
  const std::string* cause = first_loss.load(sync::kAcquire);
  if (cause == nullptr) return absl::OkStatus();
  return MakeError(
      ErrorKind::kDeviceLost,
      absl::StrCat("CUDA is lost to this process, which has to be restarted: ", *cause));
}

absl::Status ToStatus(cudaError_t result, absl::string_view call) {
  if (result == cudaSuccess) return absl::OkStatus();
  Forgive(result);
  return Told(IsSticky(result), absl::StrCat(call, ": ", cudaGetErrorString(result), " (",
                                             cudaGetErrorName(result), ")"));
}

absl::Status ToStatus(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess) return absl::OkStatus();
  const cudaError_t below = cudaPeekAtLastError();
  const bool lost = result == ncclUnhandledCudaError && IsSticky(below);
  const char* last = ncclGetLastError(nullptr);
  return Told(
      lost, absl::StrCat(call, ": ", ncclGetErrorString(result),
                         last != nullptr && *last != '\0' ? "; " : "", last != nullptr ? last : "",
                         lost ? absl::StrCat("; ", cudaGetErrorName(below)) : ""));
}

Failure ToFailure(const absl::Status& status) {
  return {KindOf(status), std::string(status.message())};
}

}  // namespace mp::cuda
