// The .npy reader takes what NumPy writes and nothing else: whole files byte by byte, every dtype,
// every refusal by its text, and hostile files (cut at every length, flipped bits, lying headers),
// none of which may crash or be taken for more than it holds.  The writer writes NumPy's bytes.

#include "mp/files/npy.h"

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mp/base/status.h"
#include "tests/files/samples.h"

namespace mp::files {
namespace {

using testing::HasSubstr;

// np.save("a.npy", np.arange(6, dtype="f4").reshape(2, 3)), as NumPy 1.26 and 2.x write it.
std::string NumpyFile() {
  std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
  file += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  file.append(58, ' ');
  file += '\n';
  file += std::string(
      "\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x40"
      "\x00\x00\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40",
      24);
  return file;
}

std::string Refusal(absl::string_view file, ErrorKind kind = ErrorKind::kInvalidArgument) {
  const auto array = ParseNpy(file);
  EXPECT_FALSE(array.ok());
  EXPECT_EQ(KindOf(array.status()), kind) << array.status();
  return std::string(array.status().message());
}

std::string RefusalOfHeader(absl::string_view header,
                            ErrorKind kind = ErrorKind::kInvalidArgument) {
  return Refusal(NpyWithHeader(header, std::string(24, '\0')), kind);
}

TEST(ParseNpy, ReadsWhatNumpyWrote) {
  const std::string file = NumpyFile();
  ASSERT_EQ(file.size(), 128 + 24);
  const auto array = ParseNpy(file);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->dtype, DType::kF32);
  EXPECT_EQ(array->shape, Shape({2, 3}));
  EXPECT_EQ(array->offset, 128);
  EXPECT_EQ(Values<float>(file.substr(128)), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(ParseNpy, EveryDType) {
  const std::vector<std::tuple<std::string, DType, size_t>> rows = {
      {"<f2", DType::kF16, 2}, {"<f4", DType::kF32, 4},    {"<f8", DType::kF64, 8},
      {"|i1", DType::kI8, 1},  {"|u1", DType::kU8, 1},     {"<i2", DType::kI16, 2},
      {"<u2", DType::kU16, 2}, {"<i4", DType::kI32, 4},    {"<u4", DType::kU32, 4},
      {"<i8", DType::kI64, 8}, {"<u8", DType::kU64, 8},    {"|b1", DType::kBool, 1},
      {"<c8", DType::kC64, 8}, {"<c16", DType::kC128, 16}, {"<i1", DType::kI8, 1},
      {"u1", DType::kU8, 1},   {">i1", DType::kI8, 1},
  };
  for (const auto& [descr, dtype, size] : rows) {
    const auto array = ParseNpy(NpyFile(descr, "(3,)", std::string(3 * size, 'x')));
    ASSERT_TRUE(array.ok()) << descr << ": " << array.status();
    EXPECT_EQ(array->dtype, dtype) << descr;
    EXPECT_EQ(array->shape, Shape({3}));
  }
}

TEST(ParseNpy, EveryFormOfTheHeader) {
  for (const std::string header : {
           "{'descr':'<i2','fortran_order':False,'shape':(2,)}",
           "  { 'shape' : ( 2 , ) , 'fortran_order' : False , 'descr' : '<i2' }  \n",
           "{\"shape\": (2L,), \"descr\": \"<i2\", \"fortran_order\": False,}\n",
           "{'descr': '<i2',\n\t'fortran_order': True, 'shape': (1, 2)}",
       }) {
    for (const int version : {1, 2, 3}) {
      const auto array = ParseNpy(NpyWithHeader(header, "abcd", version));
      ASSERT_TRUE(array.ok()) << header << ": " << array.status();
      EXPECT_EQ(array->shape.elements(), 2);
    }
  }
}

TEST(ParseNpy, ShapesWithoutElementsOrDimensions) {
  EXPECT_EQ(ParseNpy(NpyFile("<f4", "()", "abcd"))->shape, Shape());
  EXPECT_EQ(ParseNpy(NpyFile("<f4", "(0,)", ""))->shape, Shape({0}));
  EXPECT_EQ(ParseNpy(NpyFile("<f4", "(3, 0, 2)", ""))->shape, Shape({3, 0, 2}));
  EXPECT_EQ(ParseNpy(NpyFile("<f4", "(0, 1000000)", ""))->shape, Shape({0, 1000000}));
}

TEST(ParseNpy, FortranOrderWhereItDiffers) {
  const auto file = [](absl::string_view shape, size_t bytes) {
    return NpyWithHeader(
        absl::StrCat("{'descr': '<f4', 'fortran_order': True, 'shape': ", shape, "}"),
        std::string(bytes, '\0'));
  };
  for (const char* shape : {"(6,)", "(1, 6)", "(6, 1)", "(1, 6, 1)"}) {
    EXPECT_TRUE(ParseNpy(file(shape, 24)).ok()) << shape;
  }
  EXPECT_TRUE(ParseNpy(file("()", 4)).ok());
  EXPECT_TRUE(ParseNpy(file("(2, 0)", 0)).ok());
  EXPECT_EQ(Refusal(file("(2, 3)", 24), ErrorKind::kUnsupported),
            "shape [2, 3] is stored in Fortran order; save it again with np.ascontiguousarray(a)");
}

TEST(ParseNpy, RefusesDTypesByName) {
  const auto refusal = [](absl::string_view descr) {
    return Refusal(NpyFile(descr, "(1,)", "abcdefgh"), ErrorKind::kUnsupported);
  };
  EXPECT_EQ(refusal(">f4"), "dtype '>f4' is big-endian; save it again with a.astype('<f4')");
  EXPECT_THAT(refusal("=f4"), HasSubstr("does not say its byte order"));
  EXPECT_THAT(refusal("|f4"), HasSubstr("does not say its byte order"));
  EXPECT_EQ(refusal("<U2"), "dtype '<U2' is strings");
  EXPECT_EQ(refusal("|S8"), "dtype '|S8' is byte strings");
  EXPECT_EQ(refusal("|O"), "dtype '|O' is Python objects");
  EXPECT_EQ(refusal("<M8[ns]"), "dtype '<M8[ns]' is dates");
  EXPECT_THAT(refusal("|V2"), HasSubstr(".npy has no bf16"));
  EXPECT_THAT(refusal("<f16"), HasSubstr("is not one of f2 f4 f8"));
  EXPECT_THAT(refusal(""), HasSubstr("is not one of"));
  EXPECT_THAT(refusal("<"), HasSubstr("is not one of"));
  EXPECT_THAT(refusal("<f4\x1b[2J"), HasSubstr("<f4\\x1b[2J"));
  EXPECT_THAT(RefusalOfHeader("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
                              ErrorKind::kUnsupported),
              HasSubstr("structured"));
  EXPECT_THAT(
      Refusal(NpyFile("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "abcd"), ErrorKind::kUnsupported),
      HasSubstr("has 9 dimensions; at most 8"));
}

TEST(ParseNpy, RefusesOtherFiles) {
  EXPECT_EQ(Refusal("ab"), "is no .npy file: it has 2 bytes");
  EXPECT_EQ(Refusal("PK\x03\x04 an archive"), "is no .npy file: it does not begin with \\x93NUMPY");
  std::string file = NumpyFile();
  file[6] = 4;
  EXPECT_EQ(Refusal(file, ErrorKind::kUnsupported),
            "version 4.0 of the format; 1.0, 2.0 and 3.0 are known");
  EXPECT_EQ(Refusal(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)),
            "its header claims 4294967295 bytes; at most 1048576 are read");
}

TEST(ParseNpy, RefusesSizesThatLie) {
  const auto refusal = [](absl::string_view shape) {
    return Refusal(NpyFile("<f4", shape, "abcdefgh"));
  };
  EXPECT_EQ(refusal("(3,)"),
            "is truncated: f32[3] takes 12 bytes behind the header, and 8 are there");
  EXPECT_EQ(
      refusal("(1,)"),
      "has bytes at its end that do not belong to it: f32[1] takes 4 bytes behind the header, "
      "and 8 are there");
  EXPECT_THAT(refusal("(9223372036854775807,)"), HasSubstr("2^63 - 1 bytes"));
  EXPECT_THAT(refusal("(9223372036854775808,)"), HasSubstr("beyond 2^63 - 1"));
  EXPECT_THAT(refusal("(4294967296, 4294967296)"), HasSubstr("2^63 - 1"));
  EXPECT_THAT(refusal("(2305843009213693952, 2)"), HasSubstr("2^63 - 1"));
  EXPECT_THAT(refusal("(0, 9223372036854775807)"), HasSubstr("2^63 - 1"));
}

TEST(ParseNpy, CutAtEveryLength) {
  const std::string file = NumpyFile();
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string cut = file.substr(0, length);  // its own memory: sanitizers see its end
    EXPECT_FALSE(ParseNpy(cut).ok()) << length;
  }
  EXPECT_FALSE(ParseNpy(file + "x").ok());
}

TEST(ParseNpy, FlippedBytes) {
  const std::string file = NumpyFile();
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    std::string flipped = file;
    for (uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      flipped[random() % 75] ^= static_cast<char>(1 + random() % 255);
    }
    const auto array = ParseNpy(flipped);
    if (!array.ok()) continue;
    EXPECT_EQ(array->offset + array->size_bytes(), static_cast<int64_t>(flipped.size()));
  }
}

TEST(NpyHeader, WritesWhatNumpyWrites) {
  const auto header = NpyHeader(DType::kF32, {2, 3});
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(*header, NumpyFile().substr(0, 128));
  EXPECT_THAT(*NpyHeader(DType::kBool, {3}), HasSubstr("{'descr': '|b1', 'fortran_order': False, "
                                                       "'shape': (3,), }"));
  EXPECT_THAT(*NpyHeader(DType::kC128, {}), HasSubstr("'descr': '<c16'"));
  EXPECT_THAT(*NpyHeader(DType::kC128, {}), HasSubstr("'shape': (), }"));
}

TEST(NpyHeader, ReadsBackAtEveryLength) {
  for (int64_t size = 1; size < 1'000'000'000'000'000'000; size *= 10) {
    for (const Shape& shape : {Shape({0, size}), Shape({size, 0, 1, 1, 1, 1})}) {
      const auto header = NpyHeader(DType::kU8, shape);
      ASSERT_TRUE(header.ok()) << header.status();
      EXPECT_EQ(header->size() % 64, 0);
      EXPECT_EQ(header->back(), '\n');
      const auto array = ParseNpy(*header);
      ASSERT_TRUE(array.ok()) << array.status();
      EXPECT_EQ(array->shape, shape);
    }
  }
}

TEST(NpyHeader, RefusesWhatTheFormatLacks) {
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    EXPECT_EQ(KindOf(NpyHeader(dtype, {2}).status()), ErrorKind::kUnsupported);
  }
  EXPECT_EQ(KindOf(NpyHeader(DType::kF32, {-1}).status()), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace mp::files
