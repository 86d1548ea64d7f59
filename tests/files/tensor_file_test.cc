// Through the format-neutral face: what a writer writes a reader maps, the errors name the file,
// and the extension decides the format.

#include "mp/files/tensor_file.h"

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mp/base/status.h"
#include "tests/files/samples.h"

namespace mp::files {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(TensorFile, NpyThereAndBack) {
  const TempFolder folder;
  auto writer = TensorFileWriter::Create(folder / "a.npy", {{"", DType::kF32, {2, 3}}}, {}, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  ASSERT_EQ(writer->view(0).size_bytes(), 24);
  std::memcpy(writer->view(0).data(), values.data(), 24);
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(writer->size_bytes(), static_cast<int64_t>(ReadFile(folder / "a.npy").size()));
  const auto file = TensorFile::Open(folder / "a.npy");
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorView view = file->view(0);
  EXPECT_EQ(view.ToString(), "f32[2, 3]");
  EXPECT_EQ(std::memcmp(view.data(), values.data(), 24), 0);
}

TEST(TensorFile, SafetensorsThereAndBack) {
  const TempFolder folder;
  auto writer = TensorFileWriter::Create(
      folder / "a.safetensors",
      {{"x", DType::kI8, {3}}, {"y", DType::kF8E4M3, {}}, {"w", DType::kBF16, {2, 2}}},
      {{"k", "v"}}, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::memcpy(writer->view(0).data(), "abc", 3);
  std::memcpy(writer->view(1).data(), "d", 1);
  std::memcpy(writer->view(2).data(), "efghijkl", 8);
  ASSERT_TRUE(writer->Commit().ok());
  const auto file = TensorFile::Open(folder / "a.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata(), (Metadata{{"k", "v"}}));
  ASSERT_EQ(file->tensors().size(), 3);
  EXPECT_EQ(file->tensors()[0].name, "w");  // by name
  EXPECT_EQ(file->view(0).ToString(), "bf16[2, 2]");
  EXPECT_EQ(std::memcmp(file->view(0).data(), "efghijkl", 8), 0);
  EXPECT_EQ(std::memcmp(file->view(1).data(), "abc", 3), 0);
  EXPECT_EQ(file->view(2).ToString(), "f8e4m3[]");
}

TEST(TensorFile, ErrorsNameTheFile) {
  const TempFolder folder;
  const auto refusal = [&](absl::string_view name, absl::string_view bytes) {
    const auto file = TensorFile::Open(folder.Write(name, bytes));
    EXPECT_FALSE(file.ok());
    return std::string(file.status().message());
  };
  EXPECT_EQ(refusal("a.npy", "abc"), folder / "a.npy: is no .npy file: it has 3 bytes");
  EXPECT_THAT(refusal("a.safetensors", NpyFile("<f4", "()", "abcd")),
              HasSubstr(folder / "a.safetensors: is no .safetensors file"));
  EXPECT_THAT(refusal("a.bin", "abc"), HasSubstr("ends neither in .npy nor in .safetensors"));
  EXPECT_THAT(refusal("npy", "abc"), HasSubstr("ends neither"));
}

TEST(TensorFileWriter, RefusesWhatTheFormatLacks) {
  const TempFolder folder;
  const auto refusal = [&](absl::string_view name, const std::vector<TensorEntry>& tensors) {
    const auto file = TensorFileWriter::Create(folder / name, tensors, {}, {});
    EXPECT_FALSE(file.ok());
    return std::string(file.status().message());
  };
  EXPECT_THAT(refusal("a.npy", {}), HasSubstr("holds one tensor, not 0"));
  EXPECT_THAT(refusal("a.npy", {{"", DType::kBF16, {1}}}), HasSubstr("have no bf16"));
  EXPECT_THAT(refusal("a.safetensors", {{"z", DType::kC128, {1}}}), HasSubstr("have no c128"));
  EXPECT_THAT(refusal("a.txt", {{"", DType::kF32, {1}}}), HasSubstr("ends neither"));
  EXPECT_THAT(folder.Names(), IsEmpty());
}

}  // namespace
}  // namespace mp::files
