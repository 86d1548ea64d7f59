// What libFuzzer calls.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mp::fuzz::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
