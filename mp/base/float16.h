// Conversions between f32 and the 16-bit formats, one value at a time.
//
// To 16 bits they round once, to nearest even: beyond the largest finite value to infinity, below
// the smallest denormal to a zero of the same sign.  A NaN stays a NaN of the same sign, made
// quiet, with the upper bits of its payload.  From 16 bits they are exact.  Integer arithmetic
// but for one exact product, so the thread's floating-point mode has no say.
//
// Threads. Pure functions.
#ifndef MP_BASE_FLOAT16_H_
#define MP_BASE_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace mp {

// IEEE binary16: 1 sign, 5 exponent and 10 mantissa bits.
constexpr float F16ToF32(uint16_t f16) {
  const uint32_t sign = (uint32_t{f16} & 0x8000) << 16;
  const uint32_t magnitude = uint32_t{f16} & 0x7FFF;
  if (magnitude < 0x0400) {  // zero and denormals: multiples of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  const uint32_t bias = magnitude < 0x7C00 ? 127 - 15 : 255 - 31;
  const uint32_t quiet = magnitude > 0x7C00 ? 0x00400000 : 0;
  return std::bit_cast<float>(sign | quiet | ((magnitude << 13) + (bias << 23)));
}

constexpr uint16_t F32ToF16(float f32) {
  const uint32_t bits = std::bit_cast<uint32_t>(f32);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  uint32_t result = 0;
  if (magnitude > 0x7F800000) {  // NaN
    result = 0x7E00 | ((magnitude >> 13) & 0x03FF);
  } else if (magnitude >= 0x47800000) {  // 2^16
    result = 0x7C00;
  } else if (magnitude >= 0x38800000) {  // 2^-14; a carry may reach infinity
    const uint32_t rebased = magnitude - (uint32_t{127 - 15} << 23);
    result = (rebased + 0x0FFF + ((rebased >> 13) & 1)) >> 13;
  } else if (magnitude >= 0x33000000) {  // 2^-25: a denormal or the smallest normal number
    const uint32_t mantissa = (magnitude & 0x007FFFFF) | 0x00800000;
    const uint32_t shift = 126 - (magnitude >> 23);  // to units of 2^-24: 14..24
    result = (mantissa + (uint32_t{1} << (shift - 1)) - 1 + ((mantissa >> shift) & 1)) >> shift;
  }
  return static_cast<uint16_t>(sign | result);
}

// The upper half of an f32.
constexpr float BF16ToF32(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  const uint32_t quiet = (bits & 0x7FFFFFFF) > 0x7F800000 ? 0x00400000 : 0;
  return std::bit_cast<float>(bits | quiet);
}

constexpr uint16_t F32ToBF16(float f32) {
  const uint32_t bits = std::bit_cast<uint32_t>(f32);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x0040);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace mp

#endif  // MP_BASE_FLOAT16_H_
