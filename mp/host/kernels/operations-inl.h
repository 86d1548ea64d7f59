// What a fold does with values in vectors, compiled once for every vector target.
//
// An operation lifts a value to its state, joins two states, and lowers the last one to a value.
#if defined(MP_HOST_KERNELS_OPERATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MP_HOST_KERNELS_OPERATIONS_INL_H_
#undef MP_HOST_KERNELS_OPERATIONS_INL_H_
#else
#define MP_HOST_KERNELS_OPERATIONS_INL_H_
#endif

#include <limits>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mp::host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One NaN for all: its payload would depend on the order in which the compiler put operands.
template <class D>
HWY_INLINE hn::Vec<D> OneNaN([[maybe_unused]] D d, hn::Vec<D> v) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_floating_point_v<T>) {
    return hn::IfThenElse(hn::Eq(v, v), v, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
  } else {
    return v;
  }
}

struct Sum {
  explicit Sum(int /*n*/) {}
  template <class D>
  HWY_INLINE hn::Vec<D> Lift(D /*d*/, hn::Vec<D> v) const {
    return v;
  }
  template <class V>
  HWY_INLINE V Join(V a, V b) const {
    return hn::Add(a, b);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Lower(D d, hn::Vec<D> v) const {
    return OneNaN(d, v);
  }
};

struct Product {
  explicit Product(int /*n*/) {}
  template <class D>
  HWY_INLINE hn::Vec<D> Lift(D /*d*/, hn::Vec<D> v) const {
    return v;
  }
  template <class V>
  HWY_INLINE V Join(V a, V b) const {
    return hn::Mul(a, b);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Lower(D d, hn::Vec<D> v) const {
    return OneNaN(d, v);
  }
};

struct Average : Sum {
  explicit Average(int n) : Sum(n), count(n) {}
  template <class D>
  HWY_INLINE hn::Vec<D> Lower(D d, hn::Vec<D> v) const {
    return OneNaN(d, hn::Div(v, hn::Set(d, static_cast<hn::TFromD<D>>(count))));
  }
  int count;
};

// Integers compare as they are.  Floating point compares as integers in the order
// -inf < ... < -0 < +0 < ... < +inf, with NaN where it loses.
template <bool kMax>
struct Extreme {
  explicit Extreme(int /*n*/) {}

  template <class D>
  HWY_INLINE auto Lift(D /*d*/, hn::Vec<D> v) const {
    using T = hn::TFromD<D>;
    if constexpr (std::is_floating_point_v<T>) {
      const hn::RebindToSigned<D> di;
      using I = hn::TFromD<decltype(di)>;
      constexpr I kLoser = kMax ? std::numeric_limits<I>::min() : std::numeric_limits<I>::max();
      return hn::IfThenElse(hn::RebindMask(di, hn::Eq(v, v)), Flip(hn::BitCast(di, v)),
                            hn::Set(di, kLoser));
    } else {
      return v;
    }
  }
  template <class V>
  HWY_INLINE V Join(V a, V b) const {
    if constexpr (kMax) {
      return hn::Max(a, b);
    } else {
      return hn::Min(a, b);
    }
  }
  template <class D, class V>
  HWY_INLINE hn::Vec<D> Lower([[maybe_unused]] D d, V v) const {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      return OneNaN(d, hn::BitCast(d, Flip(v)));
    } else {
      return v;
    }
  }

 private:
  // Turns the order of the negative numbers round; undoes itself.
  template <class V>
  static HWY_INLINE V Flip(V v) {
    const hn::DFromV<V> di;
    const auto all_but_sign = hn::Set(di, std::numeric_limits<hn::TFromV<V>>::max());
    return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), all_but_sign));
  }
};
using Minimum = Extreme<false>;
using Maximum = Extreme<true>;

}  // namespace mp::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
