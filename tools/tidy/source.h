// The checkout's text files in memory: what the rules of tidy look at.
//
//   Tree tree = ReadTree(root);
//   for (const File& file : tree) std::puts(file.path.c_str());
#ifndef MP_TOOLS_TIDY_SOURCE_H_
#define MP_TOOLS_TIDY_SOURCE_H_

#include <string>
#include <string_view>
#include <vector>

namespace mp::tidy {

struct File {
  std::string path;                // from the top of the tree: "mp/base/sync.h"
  std::vector<std::string> lines;  // without their ends
};

// Sorted by path.
using Tree = std::vector<File>;

// Reads all text files below `root`, except links, Bazel's outputs and what lies in hidden folders
// other than .ci.
Tree ReadTree(const std::string& root);

// The lines of a C++ file with comments, and what stands between quotes, replaced by spaces.
std::vector<std::string> CodeOf(const File& file);

// One #include.
struct Include {
  int line;          // counted from 1
  std::string path;  // between the quotes or angle brackets
};

std::vector<Include> IncludesOf(const File& file);

bool IsCpp(std::string_view path);     // .h .cc .cu .cuh
bool IsHeader(std::string_view path);  // .h .cuh
bool IsInline(
    std::string_view path);           // -inl.h: a source that Highway includes once for each target
bool IsBuild(std::string_view path);  // BUILD.bazel

// A shell script: .sh, or no ending and a first line that names an interpreter.
bool IsScript(const File& file);

}  // namespace mp::tidy

#endif  // MP_TOOLS_TIDY_SOURCE_H_
