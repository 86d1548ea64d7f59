// The fold's body, and which one runs for which Fold.
//
// What launches is handed in: launch(body, blocks, threads), with a body as in grid.h.
#ifndef MP_CUDA_KERNELS_FOLD_INL_H_
#define MP_CUDA_KERNELS_FOLD_INL_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mp/cuda/kernels/arithmetic-inl.h"
#include "mp/cuda/kernels/fold.h"
#include "mp/cuda/kernels/grid.h"

namespace mp::cuda {

inline constexpr int kFoldThreads = 256;

// Where the vectors of a fold lie: elements [begin, end).  Before and behind them it goes by single
// elements; all of it does where the pointers are not equally far from a vector's boundary.
struct Vectors {
  int64_t begin;
  int64_t end;
};

inline int64_t Misalignment(const void* data, int64_t offset_bytes, int64_t alignment) {
  return static_cast<int64_t>(
      (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(offset_bytes)) %
      static_cast<uintptr_t>(alignment));
}

// Calls `is_true` for each pointer of the fold.
template <class Predicate>
bool AllPointers(const Fold& fold, Predicate is_true) {
  return std::all_of(fold.inputs, fold.inputs + fold.input_count, is_true) &&
         std::all_of(fold.outputs, fold.outputs + fold.output_count, is_true);
}

inline Vectors VectorsOf(const Fold& fold) {
  const int64_t element = SizeOf(fold.dtype);
  const int64_t start = fold.begin * element;
  const int64_t first = Misalignment(fold.inputs[0], start, kVectorBytes);
  const bool alike = AllPointers(
      fold, [=](const void* data) { return Misalignment(data, start, kVectorBytes) == first; });
  if (!alike || first % element != 0) return {fold.begin, fold.begin};
  const int64_t head = (kVectorBytes - first) % kVectorBytes / element;
  const int64_t begin = std::min(fold.begin + head, fold.end);
  const int64_t lanes = kVectorBytes / element;
  return {begin, begin + (fold.end - begin) / lanes * lanes};
}

template <class Elements, class Operation>
struct FoldBody {
  using Stored = typename Elements::Stored;
  using Value = typename Elements::Value;
  using State = typename Operation::State;

  Fold fold;
  Vectors vectors;
  bool by_bytes;  // a pointer is no multiple of an element

  template <class Grid>
  MP_DEVICE_CODE void operator()(Grid& grid) const {
    constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(Stored));
    const int64_t first = FirstIndex(grid);
    const int64_t step = IndexStep(grid);
    for (int64_t i = vectors.begin + first * kLanes; i < vectors.end; i += step * kLanes) {
      FoldAt<kLanes>(grid, i);
    }
    const int64_t head = vectors.begin - fold.begin;
    const int64_t rest = head + fold.end - vectors.end;
    for (int64_t i = first; i < rest; i += step) {
      FoldAt<1>(grid, i < head ? fold.begin + i : vectors.end + (i - head));
    }
  }

 private:
  static MP_DEVICE_CODE State Read(Stored stored, double scale) {
    Value value = Elements::Decode(stored);
    if constexpr (std::is_floating_point_v<Value>) {
      value = Multiply(value, static_cast<Value>(scale));
    }
    return Operation::Lift(value);
  }

  // A vector is loaded and stored at once, a single element maybe by its bytes.
  template <typename Packed, class Grid>
  MP_DEVICE_CODE Packed Load(Grid& grid, const Stored* from) const {
    if constexpr (sizeof(Packed) == sizeof(Stored)) {
      if (by_bytes) {
        Pack<std::byte, sizeof(Packed)> bytes;
        for (size_t i = 0; i < sizeof(Packed); ++i) {
          bytes.lane[i] = grid.Load(reinterpret_cast<const std::byte*>(from) + i);
        }
        return std::bit_cast<Packed>(bytes);
      }
    }
    return grid.Load(reinterpret_cast<const Packed*>(from));
  }
  template <typename Packed, class Grid>
  MP_DEVICE_CODE void Store(Grid& grid, Stored* to, const Packed& packed) const {
    if constexpr (sizeof(Packed) == sizeof(Stored)) {
      if (by_bytes) {
        const auto bytes = std::bit_cast<Pack<std::byte, sizeof(Packed)>>(packed);
        for (size_t i = 0; i < sizeof(Packed); ++i) {
          grid.Store(reinterpret_cast<std::byte*>(to) + i, bytes.lane[i]);
        }
        return;
      }
    }
    grid.Store(reinterpret_cast<Packed*>(to), packed);
  }

  // Elements [i, i + kLanes).
  template <int kLanes, class Grid>
  MP_DEVICE_CODE void FoldAt(Grid& grid, int64_t i) const {
    using Packed = Pack<Stored, kLanes>;
    const auto input = [&](int r) {
      return Load<Packed>(grid, static_cast<const Stored*>(fold.inputs[r]) + i);
    };
    State state[kLanes];
    Packed packed = input(0);
    MP_UNROLL
    for (int lane = 0; lane < kLanes; ++lane) state[lane] = Read(packed.lane[lane], fold.scale);
    MP_UNROLL_BY(kLanes > 1 ? 4 : 1)
    for (int r = 1; r < fold.input_count; ++r) {
      packed = input(r);
      MP_UNROLL
      for (int lane = 0; lane < kLanes; ++lane) {
        state[lane] = Operation::Join(state[lane], Read(packed.lane[lane], fold.scale));
      }
    }
    const int divisor = fold.divisor != 0 ? fold.divisor : fold.input_count;
    MP_UNROLL
    for (int lane = 0; lane < kLanes; ++lane) {
      packed.lane[lane] = Elements::Encode(Operation::Lower(state[lane], divisor));
    }
    MP_UNROLL_BY(1)
    for (int k = 0; k < fold.output_count; ++k) {
      Store(grid, static_cast<Stored*>(fold.outputs[k]) + i, packed);
    }
  }
};

template <class Elements, class Operation, class Launch>
cudaError_t LaunchBody(const Fold& fold, Launch& launch) {
  const bool aligned = AllPointers(fold, [element = SizeOf(fold.dtype)](const void* data) {
    return Misalignment(data, 0, element) == 0;
  });
  const FoldBody<Elements, Operation> body = {fold, VectorsOf(fold), !aligned};
  constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(typename Elements::Stored));
  const int64_t in_vectors = body.vectors.end - body.vectors.begin;
  const int64_t work = std::max(in_vectors / kLanes, fold.end - fold.begin - in_vectors);
  const int64_t blocks = std::clamp<int64_t>((work + kFoldThreads - 1) / kFoldThreads, 1,
                                             std::max(fold.most_blocks, 1));
  return launch(body, static_cast<int>(blocks), kFoldThreads);
}

template <class Elements, class Launch>
cudaError_t LaunchFloating(const Fold& fold, Launch& launch) {
  using Value = typename Elements::Value;
  switch (fold.op) {
    case ReduceOp::kSum:
      return LaunchBody<Elements, Sum<Value>>(fold, launch);
    case ReduceOp::kProd:
      return LaunchBody<Elements, Product<Value>>(fold, launch);
    case ReduceOp::kMin:
      return LaunchBody<Elements, Minimum<Value>>(fold, launch);
    case ReduceOp::kMax:
      return LaunchBody<Elements, Maximum<Value>>(fold, launch);
    case ReduceOp::kAvg:
      return LaunchBody<Elements, Average<Value>>(fold, launch);
  }
  return cudaErrorInvalidValue;
}

// Sums and products wrap, so those of a signed type are those of the unsigned one.
template <typename T, class Launch>
cudaError_t LaunchInteger(const Fold& fold, Launch& launch) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (fold.op) {
    case ReduceOp::kSum:
      return LaunchBody<Plain<Unsigned>, Sum<Unsigned>>(fold, launch);
    case ReduceOp::kProd:
      return LaunchBody<Plain<Unsigned>, Product<Unsigned>>(fold, launch);
    case ReduceOp::kMin:
      return LaunchBody<Plain<T>, Minimum<T>>(fold, launch);
    case ReduceOp::kMax:
      return LaunchBody<Plain<T>, Maximum<T>>(fold, launch);
    case ReduceOp::kAvg:
      return cudaErrorInvalidValue;
  }
  return cudaErrorInvalidValue;
}

template <class Launch>
cudaError_t LaunchDefined(const Fold& fold, Launch& launch) {
  switch (fold.dtype) {
    case DType::kF32:
      return LaunchFloating<Plain<float>>(fold, launch);
    case DType::kF64:
      return LaunchFloating<Plain<double>>(fold, launch);
    case DType::kF16:
      return LaunchFloating<Float16>(fold, launch);
    case DType::kBF16:
      return LaunchFloating<BFloat16>(fold, launch);
    case DType::kI8:
      return LaunchInteger<int8_t>(fold, launch);
    case DType::kU8:
      return LaunchInteger<uint8_t>(fold, launch);
    case DType::kI32:
      return LaunchInteger<int32_t>(fold, launch);
    case DType::kU32:
      return LaunchInteger<uint32_t>(fold, launch);
    case DType::kI64:
      return LaunchInteger<int64_t>(fold, launch);
    case DType::kU64:
      return LaunchInteger<uint64_t>(fold, launch);
    default:
      return cudaErrorInvalidValue;
  }
}

inline bool IsDefined(const Fold& fold) {
  return IsReducible(fold.dtype) && (fold.op != ReduceOp::kAvg || IsReducibleFloat(fold.dtype));
}

// One launch of every fold that is defined, of nothing: for a `load` that only loads.
template <class Load>
cudaError_t LoadFoldsBy(Load load) {
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      Fold fold;
      fold.dtype = static_cast<DType>(dtype);
      fold.op = static_cast<ReduceOp>(op);
      if (!IsDefined(fold)) continue;
      const cudaError_t error = LaunchDefined(fold, load);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

// LaunchFold, by `launch`.
template <class Launch>
cudaError_t LaunchFoldBy(const Fold& fold, Launch launch) {
  if (!IsDefined(fold) || fold.input_count < 1 || fold.input_count > kMostRanks ||
      fold.output_count < 0 || fold.output_count > kMostRanks) {
    return cudaErrorInvalidValue;
  }
  if (fold.begin >= fold.end || fold.output_count == 0) return cudaSuccess;
  return LaunchDefined(fold, launch);
}

}  // namespace mp::cuda

#endif  // MP_CUDA_KERNELS_FOLD_INL_H_
