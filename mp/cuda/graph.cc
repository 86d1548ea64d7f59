// Graphs over CUDA: not yet.
#include <memory>

#include "mp/base/status.h"
#include "mp/cuda/communicator.h"

namespace mp::cuda {

absl::StatusOr<std::unique_ptr<CompiledGraph>> CudaCommunicator::Compile(const RecordedGraph&) {
  return Unsupported("graphs over CUDA");
}

}  // namespace mp::cuda
