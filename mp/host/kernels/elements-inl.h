// How the elements of a fold lie in memory and in vectors, compiled once for every vector target.
//
// A kind of elements has the type that is Stored, the Lane that it is computed in, and, for a tag
// `d` of lanes, Decode from a vector of stored values and Encode to one.
#if defined(MP_HOST_KERNELS_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MP_HOST_KERNELS_ELEMENTS_INL_H_
#undef MP_HOST_KERNELS_ELEMENTS_INL_H_
#else
#define MP_HOST_KERNELS_ELEMENTS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mp::host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Loads and stores at any address.  One lane goes through memcpy, since Highway's scalar target
// would dereference a misaligned pointer.
template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const uint8_t* from) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) == 1) {
    T lane;
    std::memcpy(&lane, from, sizeof(T));
    return hn::Set(d, lane);
  } else {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  }
}

template <class D>
HWY_INLINE void StoreBytes(hn::Vec<D> v, D d, uint8_t* to) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) == 1) {
    const T lane = hn::GetLane(v);
    std::memcpy(to, &lane, sizeof(T));
  } else {
    hn::StoreU(v, d, reinterpret_cast<T*>(to));
  }
}

// Stored as computed.
template <typename T>
struct Plain {
  using Stored = T;
  using Lane = T;

  template <class D>
  static HWY_INLINE hn::Vec<D> Decode(D /*d*/, hn::Vec<D> v) {
    return v;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> Encode(D /*d*/, hn::Vec<D> v) {
    return v;
  }
};

// Bytes in lanes of 16 bits, of which the lower half is kept: Highway multiplies no bytes.
struct WideByte {
  using Stored = uint8_t;
  using Lane = uint16_t;

  template <class D>
  static HWY_INLINE hn::Vec<D> Decode(D d, hn::Vec<hn::Rebind<uint8_t, D>> v) {
    return hn::PromoteTo(d, v);
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<uint8_t, D>> Encode(D d, hn::Vec<D> v) {
    const hn::RebindToSigned<D> di;
    return hn::DemoteTo(hn::Rebind<uint8_t, D>(),
                        hn::BitCast(di, hn::And(v, hn::Set(d, uint16_t{0xFF}))));
  }
};

struct BFloat16 {
  using Stored = uint16_t;
  using Lane = float;

  template <class D>
  static HWY_INLINE hn::Vec<D> Decode(D d, hn::Vec<hn::Rebind<uint16_t, D>> v) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, v)));
  }
  // To nearest even.  A NaN has no payload here and stays one.
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> Encode(D /*d*/, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
    return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::BitCast(di, hn::ShiftRight<16>(rounded)));
  }
};

struct Float16 {
  using Stored = uint16_t;
  using Lane = float;

#if HWY_ARCH_X86 && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)
  // F16C rounds to nearest even and knows infinities, NaN and denormals.
  template <class D>
  static HWY_INLINE hn::Vec<D> Decode(D d, hn::Vec<hn::Rebind<uint16_t, D>> v) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), v));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> Encode(D /*d*/, hn::Vec<D> v) {
    return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
#else
  // Highway's own conversions lose infinities and NaN on these targets and truncate.
  template <class D>
  static HWY_INLINE hn::Vec<D> Decode(D d, hn::Vec<hn::Rebind<uint16_t, D>> v) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::PromoteTo(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFu));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
    const auto signed_magnitude = hn::BitCast(di, magnitude);
    // The exponent's bias grows by 112; that of infinity and NaN by 112 once more.
    const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(du, 112u << 23));
    const auto special = hn::Add(normal, hn::Set(du, 112u << 23));
    const auto denormal = hn::Mul(hn::ConvertTo(d, signed_magnitude), hn::Set(d, 0x1p-24f));
    const auto is_special = hn::Gt(signed_magnitude, hn::Set(di, 0x7BFF));
    const auto is_denormal = hn::Lt(signed_magnitude, hn::Set(di, 0x0400));
    auto result = hn::IfThenElse(hn::RebindMask(du, is_special), special, normal);
    result = hn::IfThenElse(hn::RebindMask(du, is_denormal), hn::BitCast(du, denormal), result);
    return hn::BitCast(d, hn::Or(result, sign));
  }
  // To nearest even.  A NaN has no payload here.
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> Encode(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
    const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
    const auto signed_magnitude = hn::BitCast(di, magnitude);
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(du, 0x0FFFu)));
    const auto normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(du, 112u << 23)));
    // A unit in the last place of 0.5f is the smallest f16, so the addition rounds as it should.
    const auto half = hn::Set(d, 0.5f);
    const auto denormal =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du, half));
    const auto is_denormal = hn::Lt(signed_magnitude, hn::Set(di, 0x38800000));
    const auto is_large = hn::Gt(signed_magnitude, hn::Set(di, 0x477FFFFF));
    const auto is_nan = hn::Gt(signed_magnitude, hn::Set(di, 0x7F800000));
    auto result = hn::IfThenElse(hn::RebindMask(du, is_denormal), denormal, normal);
    result = hn::IfThenElse(hn::RebindMask(du, is_large), hn::Set(du, 0x7C00u), result);
    result = hn::IfThenElse(hn::RebindMask(du, is_nan), hn::Set(du, 0x7E00u), result);
    return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::BitCast(di, hn::Or(result, sign)));
  }
#endif
};

}  // namespace mp::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
