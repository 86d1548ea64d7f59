#include "mp/cuda/interop.h"

#include <utility>

#include "mp/base/status.h"
#include "mp/cuda/device.h"
#include "mp/cuda/stream.h"

namespace mp::cuda {
namespace {

sync::Mutex* LaunchOf(Backend& backend) {
  if (backend.device_count() == 0 || !backend.order().maker.is_this()) return nullptr;
  auto* device = dynamic_cast<Device*>(&backend.device(0));
  return device == nullptr ? nullptr : &device->launch();
}

}  // namespace

absl::StatusOr<std::unique_ptr<mp::Stream>> WrapStream(mp::Device& device, cudaStream_t stream) {
  auto* here = dynamic_cast<Device*>(&device);
  if (here == nullptr) {
    return InvalidArgument("WrapStream: ", device.name(), " is no device of a CUDA backend");
  }
  MP_RETURN_IF_ERROR(here->maker().Check());
  return here->Wrap(stream);
}

LaunchGuard::LaunchGuard(Backend& backend) : launch_(LaunchOf(backend)) {
  if (launch_ != nullptr) launch_->Lock();
}

LaunchGuard::~LaunchGuard() {
  if (launch_ != nullptr) launch_->Unlock();
}

}  // namespace mp::cuda
