// The .safetensors reader takes what the format's reference writer writes and checks every claim
// of the header against the file; hostile files neither crash it nor let a tensor point outside.
// The writer writes the reference writer's bytes.

#include "mp/files/safetensors.h"

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

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// safetensors 0.8: save({"b": f32[2, 2], "a": f32[1], "h": f16[3]}, metadata={"format": "pt"})
std::string ReferenceFile() {
  return SafetensorsFile(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},)"
      R"("h":{"dtype":"F16","shape":[3],"data_offsets":[20,26]}}    )",
      Bytes<float>({1, 2, 3, 4, 5}) + "abcdef");
}

std::string Refusal(absl::string_view file, ErrorKind kind = ErrorKind::kInvalidArgument) {
  const auto index = ParseSafetensors(file);
  EXPECT_FALSE(index.ok()) << file;
  EXPECT_EQ(KindOf(index.status()), kind) << index.status();
  return std::string(index.status().message());
}

// Of a file with the one tensor "w" and 8 bytes of data.
std::string RefusalOf(absl::string_view tensor, ErrorKind kind = ErrorKind::kInvalidArgument) {
  return Refusal(SafetensorsFile(absl::StrCat("{\"w\":", tensor, "}"), "abcdefgh"), kind);
}

TEST(ParseSafetensors, ReadsWhatTheReferenceWrote) {
  const std::string file = ReferenceFile();
  const auto index = ParseSafetensors(file);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(index->metadata, ElementsAre(Pair("format", "pt")));
  ASSERT_EQ(index->tensors.size(), 3);
  const TensorEntry& b = index->tensors[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, DType::kF32);
  EXPECT_EQ(b.shape, Shape({2, 2}));
  EXPECT_EQ(Values<float>(file.substr(static_cast<size_t>(b.offset), 16)),
            (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(index->tensors[2].dtype, DType::kF16);
}

TEST(ParseSafetensors, EveryDType) {
  const std::vector<std::tuple<std::string, DType, size_t>> rows = {
      {"BOOL", DType::kBool, 1},      {"U8", DType::kU8, 1},          {"I8", DType::kI8, 1},
      {"F8_E5M2", DType::kF8E5M2, 1}, {"F8_E4M3", DType::kF8E4M3, 1}, {"I16", DType::kI16, 2},
      {"U16", DType::kU16, 2},        {"F16", DType::kF16, 2},        {"BF16", DType::kBF16, 2},
      {"I32", DType::kI32, 4},        {"U32", DType::kU32, 4},        {"F32", DType::kF32, 4},
      {"C64", DType::kC64, 8},        {"F64", DType::kF64, 8},        {"I64", DType::kI64, 8},
      {"U64", DType::kU64, 8},
  };
  for (const auto& [name, dtype, size] : rows) {
    const auto index = ParseSafetensors(
        SafetensorsFile(absl::StrCat(R"({"w":{"dtype":")", name,
                                     R"(","shape":[3],"data_offsets":[0,)", 3 * size, "]}}"),
                        std::string(3 * size, 'x')));
    ASSERT_TRUE(index.ok()) << name << ": " << index.status();
    EXPECT_EQ(index->tensors[0].dtype, dtype) << name;
  }
}

TEST(ParseSafetensors, EmptyThings) {
  EXPECT_TRUE(ParseSafetensors(SafetensorsFile("{}", ""))->tensors.empty());
  EXPECT_TRUE(ParseSafetensors(SafetensorsFile("{}   ", ""))->tensors.empty());
  EXPECT_TRUE(ParseSafetensors(SafetensorsFile(R"({"__metadata__":{}})", ""))->tensors.empty());
  const auto index =
      ParseSafetensors(SafetensorsFile(R"({"z":{"dtype":"F32","shape":[2,0],"data_offsets":[4,4]},)"
                                       R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                       R"("y":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})",
                                       "abcd"));
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->tensors.size(), 3);
  EXPECT_EQ(index->tensors[0].name, "y");
  EXPECT_EQ(index->tensors[1].shape, Shape());
  EXPECT_EQ(index->tensors[2].shape, Shape({2, 0}));
}

TEST(ParseSafetensors, TellsWhatIsWrongWithTheHeader) {
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","shape":[2]})"),
              HasSubstr(R"(tensor "w" has no data_offsets)"));
  for (const char* offsets : {"[0]", "[]", "[0,4,8]", "[8,0]"}) {
    EXPECT_THAT(
        RefusalOf(absl::StrCat(R"({"dtype":"F32","shape":[2],"data_offsets":)", offsets, "}")),
        HasSubstr("are not a begin and an end"));
  }
  EXPECT_THAT(Refusal(SafetensorsFile("", "")), HasSubstr("does not begin with {"));
  EXPECT_THAT(Refusal(SafetensorsFile(" {}", "")), HasSubstr("does not begin with {"));
  EXPECT_THAT(Refusal(SafetensorsFile("[]", "")), HasSubstr("does not begin with {"));
}

TEST(ParseSafetensors, RefusesWrongSizes) {
  EXPECT_EQ(Refusal("abc"), "is no .safetensors file: it has 3 bytes");
  EXPECT_THAT(Refusal(std::string(16, '\xff')),
              HasSubstr("its header claims 18446744073709551615"));
  std::string file = SafetensorsFile("{}", "");
  file[0] = 3;
  EXPECT_EQ(Refusal(file), "is truncated: its header claims 3 bytes, and 2 are there");
  EXPECT_EQ(RefusalOf(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
            R"(tensor "w": data_offsets [0, 8] span 8 bytes, and F32[3] takes 12)");
  EXPECT_EQ(RefusalOf(R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})"),
            R"(is truncated: tensor "w" needs the data up to byte 12, and it has 8)");
  EXPECT_EQ(RefusalOf(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
            "has bytes at its end that do not belong to it: its tensors take 4 bytes, and 8 are "
            "there");
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
              HasSubstr("leaves a hole"));
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,8]})"),
              HasSubstr("2^63 - 1"));
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]})"),
              HasSubstr("2^63 - 1"));
  EXPECT_THAT(RefusalOf(R"({"dtype":"I8","shape":[18446744073709551615],"data_offsets":[0,8]})"),
              HasSubstr("beyond 2^63 - 1"));
  EXPECT_THAT(RefusalOf(R"({"dtype":"I8","shape":[0],)"
                        R"("data_offsets":[9223372036854775807,9223372036854775807]})"),
              HasSubstr("2^63 - 1"));
}

TEST(ParseSafetensors, RefusesOverlap) {
  EXPECT_THAT(Refusal(SafetensorsFile(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},)"
                                      R"("b":{"dtype":"I8","shape":[4],"data_offsets":[3,7]}})",
                                      "abcdefg")),
              HasSubstr(R"(tensor "b": its data begins at 3 and overlaps what ends at 4)"));
}

TEST(ParseSafetensors, RefusesDTypesByName) {
  EXPECT_THAT(
      RefusalOf(R"({"dtype":"F8_E8M0","shape":[8],"data_offsets":[0,8]})", ErrorKind::kUnsupported),
      HasSubstr("dtype \"F8_E8M0\" is not one of BOOL U8 I8"));
  EXPECT_THAT(
      RefusalOf(R"({"dtype":"f32","shape":[2],"data_offsets":[0,8]})", ErrorKind::kUnsupported),
      HasSubstr("\"f32\""));
  EXPECT_THAT(RefusalOf(R"({"dtype":"I8","shape":[1,1,1,1,1,1,1,1,8],"data_offsets":[0,8]})",
                        ErrorKind::kUnsupported),
              HasSubstr("has 9 dimensions"));
}

TEST(ParseSafetensors, CutAtEveryLength) {
  const std::string file = ReferenceFile();
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string cut = file.substr(0, length);
    EXPECT_FALSE(ParseSafetensors(cut).ok()) << length;
  }
  EXPECT_FALSE(ParseSafetensors(file + "x").ok());
}

TEST(ParseSafetensors, FlippedBytes) {
  const std::string file = ReferenceFile();
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string flipped = file;
    for (uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      flipped[random() % (file.size() - 26)] ^= static_cast<char>(1 + random() % 255);
    }
    const auto index = ParseSafetensors(flipped);
    if (!index.ok()) continue;
    for (const TensorEntry& entry : index->tensors) {
      EXPECT_GE(entry.offset, 8);
      EXPECT_LE(entry.offset + entry.size_bytes(), static_cast<int64_t>(flipped.size()));
    }
  }
}

TEST(LayOutSafetensors, WritesWhatTheReferenceWrites) {
  const std::string file = ReferenceFile();
  const auto layout = LayOutSafetensors(
      {.tensors = {{"h", DType::kF16, {3}}, {"b", DType::kF32, {2, 2}}, {"a", DType::kF32, {1}}},
       .metadata = {{"format", "pt"}}});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->header, file.substr(0, file.size() - 26));
  EXPECT_EQ(layout->size_bytes, static_cast<int64_t>(file.size()));
  EXPECT_EQ(layout->header.size() % 8, 0);
  const auto data = static_cast<int64_t>(layout->header.size());
  EXPECT_EQ(layout->tensors[0].offset, data + 20);
  EXPECT_EQ(layout->tensors[1].offset, data + 4);
  EXPECT_EQ(layout->tensors[2].offset, data);
}

TEST(LayOutSafetensors, EveryDTypeReadsBack) {
  SafetensorsIndex index;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kC128) continue;
    index.tensors.push_back({absl::StrCat("t\"\\\n\x01/", i), dtype, {3, 1}});
    index.tensors.push_back({absl::StrCat("empty", i), dtype, {0, 7}});
  }
  const auto layout = LayOutSafetensors(index);
  ASSERT_TRUE(layout.ok()) << layout.status();
  const std::string file =
      layout->header +
      std::string(static_cast<size_t>(layout->size_bytes) - layout->header.size(), 'x');
  const auto read = ParseSafetensors(file);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->tensors.size(), index.tensors.size());
  for (const TensorEntry& entry : read->tensors) {
    if (entry.size_bytes() == 0) continue;
    EXPECT_EQ(entry.offset % SizeOf(entry.dtype), 0) << entry.name;  // C64 has 8 too
  }
}

TEST(LayOutSafetensors, Refuses) {
  EXPECT_EQ(KindOf(LayOutSafetensors({.tensors = {{"z", DType::kC128, {1}}}}).status()),
            ErrorKind::kUnsupported);
  const Shape huge({int64_t{1} << 62});
  EXPECT_THAT(LayOutSafetensors({.tensors = {{"a", DType::kI8, huge}, {"b", DType::kI8, huge}}})
                  .status()
                  .message(),
              HasSubstr("together"));
  EXPECT_THAT(LayOutSafetensors({.tensors = {{"\xff", DType::kI8, {1}}}}).status().message(),
              HasSubstr("not UTF-8"));
}

}  // namespace
}  // namespace mp::files
