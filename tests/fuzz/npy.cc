#include "mp/files/npy.h"

#include "tests/files/samples.h"
#include "tests/fuzz/reader.h"

namespace mp::fuzz {

std::string Read(absl::string_view input) {
  const auto array = files::ParseNpy(input);
  if (!array.ok()) return std::string(array.status().message());
  // What it says must be there.
  uint8_t sum = 0;
  for (const char c : input.substr(static_cast<size_t>(array->offset))) {
    sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(c));
  }
  const auto header = files::NpyHeader(array->dtype, array->shape);
  return header.ok() && sum < 255 ? "OK" : "OK, last";
}

std::vector<std::string> Seeds() {
  return {
      files::NpyFile("<f4", "(2, 3)", std::string(24, 'x')),
      files::NpyFile("|u1", "(7,)", std::string(7, 'x')),
      files::NpyFile("<c16", "()", std::string(16, 'x')),
      files::NpyFile("<i8", "(0, 5, 3)", ""),
      files::NpyWithHeader("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 3), }",
                           std::string(24, 'x'), 2),
      files::NpyWithHeader("{\"shape\": (2L,), \"fortran_order\": False, \"descr\": \"<f2\"}   \n",
                           std::string(4, 'x'), 3),
  };
}

std::vector<std::string> Pieces() {
  return {"'descr'", "'fortran_order'",
          "'shape'", "True",
          "False",   "(",
          ")",       "(1,)",
          ",",       "<f4",
          ">f4",     "|b1",
          "=i2",     "[('a', '<f4')]",
          "L",       "\\"};
}

}  // namespace mp::fuzz
