// Proves that what nvcc made of the kernels has code for every architecture, and the kernels in it:
// the images lie uncompressed in the object file, each an ELF file for NVIDIA's machine that keeps
// the assembler's command line.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mp::cuda {
namespace {

using ::testing::UnorderedElementsAre;

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// From one image's beginning to the next one's.
std::vector<std::string> ImagesIn(const std::string& object) {
  constexpr size_t kMachineAt = 18;  // of an ELF header: two bytes
  constexpr uint16_t kCuda = 190;
  std::vector<std::string> images;
  const std::string magic =
      "\x7f"
      "ELF";
  size_t begin = std::string::npos;
  for (size_t at = object.find(magic); at != std::string::npos; at = object.find(magic, at + 1)) {
    if (begin != std::string::npos) images.push_back(object.substr(begin, at - begin));
    uint16_t machine = 0;
    if (at + kMachineAt + sizeof(machine) <= object.size()) {
      std::memcpy(&machine, object.data() + at + kMachineAt, sizeof(machine));
    }
    begin = machine == kCuda ? at : std::string::npos;
  }
  if (begin != std::string::npos) images.push_back(object.substr(begin));
  return images;
}

// "sm_90"
std::string ArchitectureOf(const std::string& image) {
  const std::string option = "-arch ";
  const size_t at = image.find(option);
  if (at == std::string::npos) return "";
  const size_t begin = at + option.size();
  return image.substr(begin, image.find(' ', begin) - begin);
}

// Sections with the code of a kernel.
size_t KernelsIn(const std::string& image) {
  std::set<std::string> kernels;
  const std::string section = ".text._ZN2mp4cuda7RunBody";
  for (size_t at = image.find(section); at != std::string::npos; at = image.find(section, at + 1)) {
    kernels.insert(image.c_str() + at);
  }
  return kernels.size();
}

void ExpectEveryArchitecture(const std::string& name, size_t kernels) {
  std::set<std::string> architectures;
  for (const std::string& image : ImagesIn(ContentsOf("mp/cuda/kernels/" + name + "_object.o"))) {
    const std::string architecture = ArchitectureOf(image);
    architectures.insert(architecture);
    EXPECT_EQ(KernelsIn(image), kernels) << name << " for " << architecture;
  }
  EXPECT_THAT(architectures,
              UnorderedElementsAre("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"));
}

TEST(Object, FoldsForEveryArchitecture) {
  // Five of four types, two of three sizes of integers, two of six integers.
  ExpectEveryArchitecture("fold", 5 * 4 + 2 * 3 + 2 * 6);
}

TEST(Object, CopiesForEveryArchitecture) { ExpectEveryArchitecture("copy", 1); }

}  // namespace
}  // namespace mp::cuda
