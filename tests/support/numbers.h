// Numbers as the bytes of an element, and back: slow, and written from the definitions of the
// formats, so that nothing here can share a mistake with mp's own conversions.
//
//   Encode(DType::kF16, 1.5, to);   // 00 3e
//   Decode(DType::kF16, from);      // 1.5
#ifndef MP_TESTS_SUPPORT_NUMBERS_H_
#define MP_TESTS_SUPPORT_NUMBERS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "mp/dtype.h"

namespace mp::test {

using Bytes = std::vector<uint8_t>;

// The ten types that can be reduced, and all types.
std::vector<DType> ReducibleTypes();
std::vector<DType> AllTypes();

// A binary floating-point format of 16 bits.
struct HalfFormat {
  int mantissa_bits;
  int lowest_exponent;  // of a normal number
};
inline constexpr HalfFormat kF16Format{10, -14};
inline constexpr HalfFormat kBF16Format{7, -126};

// To nearest, ties to even; overflow to infinity; a NaN becomes a quiet one.
uint16_t EncodeHalf(HalfFormat format, double value);
double DecodeHalf(HalfFormat format, uint16_t bits);

// Reducible types.  Integers: `value` modulo 2^bits.
void Encode(DType dtype, double value, uint8_t* to);
// Reducible types; 64-bit integers lose what a double cannot hold.
double Decode(DType dtype, const uint8_t* from);
bool IsNaN(DType dtype, const uint8_t* from);

// "1.5 (0x3e00)", for messages.
std::string Describe(DType dtype, const uint8_t* element);

// A dense tensor from a list of numbers.
Bytes EncodeAll(DType dtype, const std::vector<double>& values);

// The first element in which two dense tensors differ, in words; empty where there is none.
// `nan_alike`: one NaN is as good as another.
std::string FirstDifference(DType dtype, const Bytes& got, const Bytes& expected, bool nan_alike);

// What a tensor holds before an operation, as a function of its seed ---------------------------

// Any bits.  Bools are 0 or 1.
Bytes AnyBits(DType dtype, int64_t count, uint64_t seed);
// Small whole numbers, whose sums over up to 8 ranks are exact in every reducible type and order.
Bytes SmallNumbers(DType dtype, int64_t count, uint64_t seed);
// 1, 2 and 4, negative too where there are negative numbers: products over up to 4 ranks are exact.
Bytes SmallFactors(DType dtype, int64_t count, uint64_t seed);
// Finite numbers of all sizes, so that a sum depends on its order; some zeros of both signs and
// denormals; with `specials` also infinities and NaNs.
Bytes WildNumbers(DType dtype, int64_t count, uint64_t seed, bool specials = false);

// The generator behind them and of every seeded choice in tests.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t Bits() { return engine_(); }
  // 0 <= result < limit.
  int Below(int limit) { return static_cast<int>(Bits() % static_cast<uint64_t>(limit)); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int>(from.size())))];
  }
  // 0 .. n-1 in some order.
  std::vector<int> Permutation(int n);

 private:
  std::mt19937_64 engine_;
};

}  // namespace mp::test

#endif  // MP_TESTS_SUPPORT_NUMBERS_H_
