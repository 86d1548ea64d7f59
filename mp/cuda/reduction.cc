#include "mp/cuda/reduction.h"

#include <cstdint>
#include <cstring>

#include "mp/base/check.h"
#include "mp/base/float16.h"
#include "mp/base/status.h"
#include "mp/cuda/status.h"
#include "mp/dtype.h"

namespace mp::cuda {
namespace {

template <typename T>
std::array<std::byte, 8> BytesOf(T value) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::array<std::byte, 8> Encode(DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return BytesOf(value);
    case DType::kF16:
      return BytesOf(F32ToF16(static_cast<float>(value)));
    case DType::kBF16:
      return BytesOf(F32ToBF16(static_cast<float>(value)));
    default:
      return BytesOf(static_cast<float>(value));
  }
}

// Whether the dtype has this number; wider ones are rounded to, as on the host.
bool Holds(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  if (dtype == DType::kF16) return static_cast<double>(F16ToF32(F32ToF16(narrow))) == value;
  if (dtype == DType::kBF16) return static_cast<double>(BF16ToF32(F32ToBF16(narrow))) == value;
  return true;
}

}  // namespace

bool ScalesFirst(const Descriptor& step) {
  if (step.scale == 1.0) return false;
  const bool sums = step.reduce_op == ReduceOp::kSum || step.reduce_op == ReduceOp::kAvg;
  return !sums || !Holds(step.dtype, step.scale);
}

absl::Status CheckReduction(const Descriptor& step) {
  if (!step.shared_output || !ScalesFirst(step)) return absl::OkStatus();
  return Unsupported("AllReduce ", ReduceOpName(step.reduce_op), " of ", DTypeName(step.dtype),
                     " with scale ", step.scale,
                     " into one shared output over NCCL, which does not scale so");
}

ncclDataType_t NcclType(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI8:
      return ncclInt8;
    case DType::kU8:
      return ncclUint8;
    case DType::kI32:
      return ncclInt32;
    case DType::kU32:
      return ncclUint32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU64:
      return ncclUint64;
    default:
      MP_CHECK(dtype == DType::kF32);
      return ncclFloat32;
  }
}

Reductions::~Reductions() {
  for (const auto& [op, comm] : made_) ncclRedOpDestroy(op, comm);
}

absl::StatusOr<ncclRedOp_t> Reductions::OpFor(const Descriptor& step, ncclComm_t comm) {
  switch (step.reduce_op) {
    case ReduceOp::kProd:
      return ncclProd;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  if (step.scale == 1.0 || ScalesFirst(step)) return ncclSum;
  auto scale = Encode(step.dtype, step.scale);
  ncclRedOp_t op = ncclSum;
  MP_RETURN_IF_ERROR(MP_CUDA(ncclRedOpCreatePreMulSum(&op, scale.data(), NcclType(step.dtype),
                                                      ncclScalarHostImmediate, comm)));
  made_.emplace_back(op, comm);
  return op;
}

}  // namespace mp::cuda
