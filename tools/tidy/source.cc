#include "tools/tidy/source.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mp::tidy {
namespace {

namespace fs = std::filesystem;

bool IsLeftOut(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return entry.is_symlink() || (entry.is_directory() && name.starts_with('.') && name != ".ci");
}

std::vector<std::string> SplitLines(const std::string& content) {
  std::vector<std::string> lines;
  std::istringstream stream(content);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

// Blanks one file line by line, and remembers what a line left open.
class Blanker {
 public:
  std::string Blank(const std::string& line) {
    std::string code = line;
    for (std::size_t i = 0; i < line.size();) {
      const std::size_t end = closer_.empty() ? Open(line, i) : Close(line, i);
      if (!is_code_) std::fill(code.begin() + Offset(i), code.begin() + Offset(end), ' ');
      i = end;
    }
    if (closer_ == "\"" || closer_ == "'" || closer_ == kLineEnd) closer_.clear();
    return code;
  }

 private:
  static constexpr std::string_view kLineEnd = "\n";

  static std::ptrdiff_t Offset(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

  // In code: takes one character, or what opens a comment or a literal. Returns where it ends.
  std::size_t Open(const std::string& line, std::size_t i) {
    const std::string_view rest = std::string_view(line).substr(i);
    const bool after_word = i > 0 && (std::isalnum(static_cast<unsigned char>(line[i - 1])) != 0);
    is_code_ = false;
    if (rest.starts_with("//")) {
      closer_ = kLineEnd;
    } else if (rest.starts_with("/*")) {
      closer_ = "*/";
      return i + 2;
    } else if (rest.starts_with("R\"") && rest.find('(') != std::string_view::npos) {
      const std::size_t open = rest.find('(');
      closer_ = ")" + std::string(rest.substr(2, open - 2)) + "\"";
      return i + open + 1;
    } else if (rest.starts_with('"') || (rest.starts_with('\'') && !after_word)) {
      closer_ = rest.substr(0, 1);
    } else {
      is_code_ = true;
    }
    return i + 1;
  }

  // In a comment or literal: takes one character, or what closes it. Returns where it ends.
  std::size_t Close(const std::string& line, std::size_t i) {
    is_code_ = false;
    const bool is_plain_literal = closer_ == "\"" || closer_ == "'";
    if (is_plain_literal && line[i] == '\\') return std::min(i + 2, line.size());
    if (!std::string_view(line).substr(i).starts_with(closer_)) return i + 1;
    const std::size_t end = i + closer_.size();
    closer_.clear();
    return end;
  }

  std::string closer_;  // what ends the comment or literal that we are in
  bool is_code_ = true;
};

}  // namespace

Tree ReadTree(const std::string& root) {
  Tree tree;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (IsLeftOut(*entry)) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      std::ifstream stream(entry->path(), std::ios::binary);
      const std::string content(std::istreambuf_iterator<char>(stream), {});
      if (content.find('\0') != std::string::npos) continue;
      tree.push_back({fs::relative(entry->path(), root).string(), SplitLines(content)});
    }
  }
  std::sort(tree.begin(), tree.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return tree;
}

std::vector<std::string> CodeOf(const File& file) {
  std::vector<std::string> code;
  Blanker blanker;
  for (const std::string& line : file.lines) code.push_back(blanker.Blank(line));
  return code;
}

std::vector<Include> IncludesOf(const File& file) {
  std::vector<Include> includes;
  const std::vector<std::string> code = CodeOf(file);
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (!code[i].starts_with("#include")) continue;  // else it is commented out
    const std::string& line = file.lines[i];
    const std::size_t open = line.find_first_of("\"<");
    if (open == std::string::npos) continue;
    const std::size_t close = line.find_first_of("\">", open + 1);
    includes.push_back({static_cast<int>(i) + 1, line.substr(open + 1, close - open - 1)});
  }
  return includes;
}

bool IsHeader(std::string_view path) { return path.ends_with(".h") || path.ends_with(".cuh"); }

bool IsCpp(std::string_view path) {
  return IsHeader(path) || path.ends_with(".cc") || path.ends_with(".cu");
}

bool IsInline(std::string_view path) { return path.ends_with("-inl.h"); }

bool IsBuild(std::string_view path) {
  return path == "BUILD.bazel" || path.ends_with("/BUILD.bazel") || path == "BUILD" ||
         path.ends_with("/BUILD");
}

bool IsScript(const File& file) {
  const std::string name = fs::path(file.path).filename().string();
  return name.ends_with(".sh") || (name.find('.') == std::string::npos && !file.lines.empty() &&
                                   file.lines[0].starts_with("#!"));
}

}  // namespace mp::tidy
