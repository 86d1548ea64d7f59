// The 16-bit formats by their definition, in double arithmetic: sign, exponent and mantissa are
// taken apart and put together with ldexp, and rounding is that of nearbyint on the exact quotient
// by the unit in the last place.  Shares nothing with the code under test.
#ifndef MP_TESTS_HOST_KERNELS_FLOAT16_ORACLE_H_
#define MP_TESTS_HOST_KERNELS_FLOAT16_ORACLE_H_

#include <cmath>
#include <cstdint>
#include <limits>

namespace mp::host {

struct Format16 {
  int mantissa_bits;
  int least_exponent;     // of a normal number
  int greatest_exponent;  // of a finite number
};
inline constexpr Format16 kFormatF16 = {10, -14, 15};
inline constexpr Format16 kFormatBF16 = {7, -126, 127};

inline double Decode16(Format16 format, uint16_t bits) {
  const int scale = 1 << format.mantissa_bits;
  const int mantissa = bits % scale;
  const int exponent = (bits & 0x7FFF) / scale;
  const double sign = bits >= 0x8000 ? -1 : 1;
  const int special = format.greatest_exponent - format.least_exponent + 2;
  if (exponent == special) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double fraction = exponent == 0 ? mantissa : scale + mantissa;
  const int power = (exponent == 0 ? 1 : exponent) - 1 + format.least_exponent;
  return sign * std::ldexp(fraction, power - format.mantissa_bits);
}

// To nearest even.  NaN becomes the positive quiet one without payload.
inline uint16_t Encode16(Format16 format, double value) {
  const uint16_t infinity = static_cast<uint16_t>(
      (format.greatest_exponent - format.least_exponent + 2) << format.mantissa_bits);
  if (std::isnan(value)) {
    return static_cast<uint16_t>(infinity + (1 << (format.mantissa_bits - 1)));
  }
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<uint16_t>(sign + infinity);
  if (magnitude == 0) return sign;
  int exponent = std::ilogb(magnitude);
  if (exponent < format.least_exponent) exponent = format.least_exponent;
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  if (std::ldexp(units, exponent - format.mantissa_bits) >=
      std::ldexp(1.0, format.greatest_exponent + 1)) {
    return static_cast<uint16_t>(sign + infinity);
  }
  // A denormal has exponent field 0 and no implicit bit, so the fields simply add up.
  const int field = exponent - format.least_exponent;
  return static_cast<uint16_t>(sign + (field << format.mantissa_bits) + static_cast<int>(units));
}

}  // namespace mp::host

#endif  // MP_TESTS_HOST_KERNELS_FLOAT16_ORACLE_H_
