// How elements lie in memory, and what a fold does with their values: the rules of
// mp/host/kernels/fold.h, one value at a time, for a thread of a GPU.
//
// A kind of elements has the type that is Stored and the Value that is computed with.  An operation
// lifts a value to its State, joins two states, and lowers the last one to a value.  No step is
// merged with another: a multiplication and an addition round twice.
#ifndef MP_CUDA_KERNELS_ARITHMETIC_INL_H_
#define MP_CUDA_KERNELS_ARITHMETIC_INL_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "mp/base/float16.h"
#include "mp/cuda/kernels/grid.h"

namespace mp::cuda {

// Arithmetic --------------------------------------------------------------------------------------

// Integers are unsigned here, so that they wrap.
template <typename T>
MP_DEVICE_CODE T Add(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) return __fadd_rn(a, b);
  if constexpr (std::is_same_v<T, double>) return __dadd_rn(a, b);
#endif
  return static_cast<T>(a + b);
}

template <typename T>
MP_DEVICE_CODE T Multiply(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) return __fmul_rn(a, b);
  if constexpr (std::is_same_v<T, double>) return __dmul_rn(a, b);
#endif
  return static_cast<T>(a * b);
}

// Floating point only.
template <typename T>
MP_DEVICE_CODE T Divide(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) return __fdiv_rn(a, b);
  if constexpr (std::is_same_v<T, double>) return __ddiv_rn(a, b);
#endif
  return a / b;
}

// Elements ----------------------------------------------------------------------------------------

// Encode writes one NaN for all, the positive quiet one without payload.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static MP_DEVICE_CODE T Decode(T stored) { return stored; }
  static MP_DEVICE_CODE T Encode(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return value == value ? value : std::numeric_limits<T>::quiet_NaN();
    } else {
      return value;
    }
  }
};

struct Float16 {
  using Stored = uint16_t;
  using Value = float;
  static MP_DEVICE_CODE float Decode(uint16_t stored) {
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(stored));
    return value;
#else
    return F16ToF32(stored);
#endif
  }
  static MP_DEVICE_CODE uint16_t Encode(float value) {
#if defined(__CUDA_ARCH__)
    uint16_t rounded;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
#else
    const uint16_t rounded = F32ToF16(value);
#endif
    return value == value ? rounded : uint16_t{0x7E00};
  }
};

struct BFloat16 {
  using Stored = uint16_t;
  using Value = float;
  static MP_DEVICE_CODE float Decode(uint16_t stored) {
    return std::bit_cast<float>(uint32_t{stored} << 16);
  }
  static MP_DEVICE_CODE uint16_t Encode(float value) {
    return value == value ? F32ToBF16(value) : uint16_t{0x7FC0};
  }
};

// Operations --------------------------------------------------------------------------------------

template <typename Value>
struct Sum {
  using State = Value;
  static MP_DEVICE_CODE State Lift(Value value) { return value; }
  static MP_DEVICE_CODE State Join(State a, State b) { return Add(a, b); }
  static MP_DEVICE_CODE Value Lower(State state, int /*n*/) { return state; }
};

template <typename Value>
struct Product {
  using State = Value;
  static MP_DEVICE_CODE State Lift(Value value) { return value; }
  static MP_DEVICE_CODE State Join(State a, State b) { return Multiply(a, b); }
  static MP_DEVICE_CODE Value Lower(State state, int /*n*/) { return state; }
};

template <typename Value>
struct Average : Sum<Value> {
  static MP_DEVICE_CODE Value Lower(Value state, int n) {
    return Divide(state, static_cast<Value>(n));
  }
};

// Integers compare as they are.  Floating point compares as integers in the order
// -inf < ... < -0 < +0 < ... < +inf, with NaN where it loses.
template <typename Value, bool kMax>
struct Extreme {
  static constexpr bool kFloating = std::is_floating_point_v<Value>;
  using Integer = std::conditional_t<sizeof(Value) == 8, int64_t, int32_t>;
  using State = std::conditional_t<kFloating, Integer, Value>;

  static MP_DEVICE_CODE State Lift(Value value) {
    if constexpr (kFloating) {
      constexpr State kLoser =
          kMax ? std::numeric_limits<State>::min() : std::numeric_limits<State>::max();
      return value == value ? Flip(std::bit_cast<State>(value)) : kLoser;
    } else {
      return value;
    }
  }
  static MP_DEVICE_CODE State Join(State a, State b) { return (kMax ? a < b : b < a) ? b : a; }
  static MP_DEVICE_CODE Value Lower(State state, int /*n*/) {
    if constexpr (kFloating) {
      return std::bit_cast<Value>(Flip(state));
    } else {
      return state;
    }
  }

 private:
  // Turns the order of the negative numbers round; undoes itself.
  static MP_DEVICE_CODE State Flip(State bits) {
    return bits < 0 ? static_cast<State>(bits ^ std::numeric_limits<State>::max()) : bits;
  }
};

template <typename Value>
using Minimum = Extreme<Value, false>;
template <typename Value>
using Maximum = Extreme<Value, true>;

}  // namespace mp::cuda

#endif  // MP_CUDA_KERNELS_ARITHMETIC_INL_H_
