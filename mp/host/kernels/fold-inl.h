// The fold's loops over elements (elements-inl.h) and an operation (operations-inl.h), compiled
// once for every vector target.  Vectors shrink towards the end of a range (whole, 16 bytes, one
// lane), so that nothing outside it is ever read.
#if defined(MP_HOST_KERNELS_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MP_HOST_KERNELS_FOLD_INL_H_
#undef MP_HOST_KERNELS_FOLD_INL_H_
#else
#define MP_HOST_KERNELS_FOLD_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "mp/dtype.h"
#include "mp/host/kernels/elements-inl.h"
#include "mp/host/kernels/fold.h"
#include "mp/host/kernels/operations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mp::host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kLineBytes = 64;

// The arguments of a fold, passed by value so that the loops keep them in registers: stores of
// bytes could change whatever lies in memory.
template <class ElementsT, class OperationT, bool kScaledV>
struct Fold {
  using Elements = ElementsT;
  using Operation = OperationT;
  using Stored = typename Elements::Stored;
  using Lane = typename Elements::Lane;
  template <class D>
  using StoredTag = hn::Rebind<Stored, D>;
  static constexpr int64_t kBytes = sizeof(Stored);
  static constexpr bool kUnrollRanks =
      std::is_same_v<Elements, Plain<float>> && std::is_same_v<Operation, Sum> && !kScaledV;

  const void* const* inputs;
  int64_t n;
  void* const* outputs;
  int64_t m;
  Operation operation;
  Lane scale;

  HWY_INLINE const uint8_t* Input(int64_t r, int64_t i) const {
    return static_cast<const uint8_t*>(inputs[r]) + i * kBytes;
  }
  HWY_INLINE uint8_t* Output(int64_t k, int64_t i) const {
    return static_cast<uint8_t*>(outputs[k]) + i * kBytes;
  }

  template <class D>
  HWY_INLINE auto Read(D d, const uint8_t* from) const {
    hn::Vec<D> v = Elements::Decode(d, LoadBytes(StoredTag<D>(), from));
    if constexpr (kScaledV) v = hn::Mul(v, hn::Set(d, scale));
    return operation.Lift(d, v);
  }

  template <bool kStream, class D, class V>
  HWY_INLINE void Write(D /*d*/, V v, uint8_t* to) const {
    const StoredTag<D> stored;
    if constexpr (kStream) {
      hn::Stream(v, stored, reinterpret_cast<Stored*>(to));
    } else {
      StoreBytes(v, stored, to);
    }
  }
};

// Calls body(first), ..., body(count - 1).  kRanks: the count where the compiler shall know it and
// leave no loop, else 0.
template <int kRanks, class Body>
HWY_INLINE void ForRanks(int64_t first, int64_t count, Body body) {
  if constexpr (kRanks > 0) {
    HWY_UNROLL(8)
    for (int64_t r = first; r < kRanks; ++r) body(r);
  } else {
    for (int64_t r = first; r < count; ++r) body(r);
  }
}

// Four vectors at a time, as long as whole ones fit.  Returns the first element that is left.
template <bool kStream, int kRanks = 0, class F, class D>
HWY_INLINE int64_t FoldBlocks(const F f, D d, int64_t i, int64_t end) {
  using Elements = typename F::Elements;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t step = lanes * F::kBytes;
  for (; end - i >= 4 * lanes; i += 4 * lanes) {
    const uint8_t* first = f.Input(0, i);
    auto s0 = f.Read(d, first);
    auto s1 = f.Read(d, first + step);
    auto s2 = f.Read(d, first + 2 * step);
    auto s3 = f.Read(d, first + 3 * step);
    ForRanks<kRanks>(1, f.n, [&](int64_t r) HWY_ATTR {
      const uint8_t* from = f.Input(r, i);
      s0 = f.operation.Join(s0, f.Read(d, from));
      s1 = f.operation.Join(s1, f.Read(d, from + step));
      s2 = f.operation.Join(s2, f.Read(d, from + 2 * step));
      s3 = f.operation.Join(s3, f.Read(d, from + 3 * step));
    });
    const auto v0 = Elements::Encode(d, f.operation.Lower(d, s0));
    const auto v1 = Elements::Encode(d, f.operation.Lower(d, s1));
    const auto v2 = Elements::Encode(d, f.operation.Lower(d, s2));
    const auto v3 = Elements::Encode(d, f.operation.Lower(d, s3));
    ForRanks<kRanks>(0, f.m, [&](int64_t k) HWY_ATTR {
      uint8_t* to = f.Output(k, i);
      f.template Write<kStream>(d, v0, to);
      f.template Write<kStream>(d, v1, to + step);
      f.template Write<kStream>(d, v2, to + 2 * step);
      f.template Write<kStream>(d, v3, to + 3 * step);
    });
  }
  return i;
}

// The same, one vector at a time.
template <class F, class D>
HWY_INLINE int64_t FoldVectors(const F f, D d, int64_t i, int64_t end) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; end - i >= lanes; i += lanes) {
    auto s = f.Read(d, f.Input(0, i));
    for (int64_t r = 1; r < f.n; ++r) s = f.operation.Join(s, f.Read(d, f.Input(r, i)));
    const auto v = F::Elements::Encode(d, f.operation.Lower(d, s));
    for (int64_t k = 0; k < f.m; ++k) f.template Write<false>(d, v, f.Output(k, i));
  }
  return i;
}

// All of [i, end), which is short.
template <class F>
HWY_NOINLINE void FoldShort(const F f, int64_t i, int64_t end) {
  using Lane = typename F::Lane;
  i = FoldVectors(f, hn::CappedTag<Lane, 16 / sizeof(Lane)>(), i, end);
  FoldVectors(f, hn::CappedTag<Lane, 1>(), i, end);
}

// The elements from i to the first cache line of the first output; 0 where no element starts one.
template <class F>
int64_t ElementsBeforeLine(const F& f, int64_t i) {
  if (f.m == 0) return 0;
  const int64_t bytes =
      static_cast<int64_t>(-reinterpret_cast<uintptr_t>(f.Output(0, i)) % kLineBytes);
  return bytes % F::kBytes == 0 ? bytes / F::kBytes : 0;
}

// Whether a cache line of every output starts with element i.
template <class F>
bool OutputsStartLines(const F& f, int64_t i) {
  for (int64_t k = 0; k < f.m; ++k) {
    if (reinterpret_cast<uintptr_t>(f.Output(k, i)) % kLineBytes != 0) return false;
  }
  return true;
}

// The all-reduce that matters most, of few ranks, without loops over ranks.
template <class F, class D>
HWY_INLINE int64_t FoldCachedBlocks(const F f, D d, int64_t i, int64_t end) {
  if constexpr (F::kUnrollRanks) {
    if (f.n == f.m) {
      switch (f.n) {
        case 2:
          return FoldBlocks<false, 2>(f, d, i, end);
        case 4:
          return FoldBlocks<false, 4>(f, d, i, end);
        case 8:
          return FoldBlocks<false, 8>(f, d, i, end);
        default:
          break;
      }
    }
  }
  return FoldBlocks<false>(f, d, i, end);
}

template <class F>
HWY_INLINE void FoldRange(const F f, int64_t i, int64_t end, bool streaming) {
  using Lane = typename F::Lane;
  // Below this, whole cache lines are not worth looking for.
  constexpr int64_t kAlignFromBytes = 1024;
  // Highway rounds a streaming store up to 16 bytes.
  constexpr bool kCanStream =
      !HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR && HWY_LANES(Lane) * F::kBytes >= 16;

  const hn::ScalableTag<Lane> d;
  if ((end - i) * F::kBytes >= kAlignFromBytes) {
    if (const int64_t head = ElementsBeforeLine(f, i); head > 0) {
      FoldShort(f, i, i + head);
      i += head;
    }
    if constexpr (kCanStream) {
      if (streaming && OutputsStartLines(f, i)) {
        i = FoldBlocks<true>(f, d, i, end);
        hwy::FlushStream();
      }
    }
  }
  i = FoldCachedBlocks(f, d, i, end);
  i = FoldVectors(f, d, i, end);
  if (i < end) FoldShort(f, i, end);
}

template <class Elements, class Operation>
void RunFold(const void* const* inputs, int n, void* const* outputs, int m, int64_t begin,
             int64_t count, const FoldOptions& options) {
  using Lane = typename Elements::Lane;
  const int64_t end = begin + count;
  if constexpr (std::is_floating_point_v<Lane>) {
    // A product with 1 changes nothing, so only sums, which matter most, have code without it.
    if (!std::is_base_of_v<Sum, Operation> || options.scale != 1.0) {
      const Fold<Elements, Operation, true> scaled = {
          inputs, n, outputs, m, Operation(n), static_cast<Lane>(options.scale)};
      return FoldRange(scaled, begin, end, options.streaming);
    }
  }
  if constexpr (!std::is_floating_point_v<Lane> || std::is_base_of_v<Sum, Operation>) {
    const Fold<Elements, Operation, false> fold = {inputs, n, outputs, m, Operation(n), {}};
    FoldRange(fold, begin, end, options.streaming);
  }
}

template <class Elements>
FoldFn FindFloatingFold(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return RunFold<Elements, Sum>;
    case ReduceOp::kProd:
      return RunFold<Elements, Product>;
    case ReduceOp::kMin:
      return RunFold<Elements, Minimum>;
    case ReduceOp::kMax:
      return RunFold<Elements, Maximum>;
    case ReduceOp::kAvg:
      return RunFold<Elements, Average>;
  }
  return nullptr;
}

}  // namespace mp::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
