// Rules about the shape of a file.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"

namespace mp::tidy {
namespace {

// The limits, in one place. Aim lower: headers of 150 lines, sources of 400.
constexpr std::size_t kHeaderLines = 200;
constexpr std::size_t kSourceLines = 500;
constexpr std::size_t kScriptLines = 200;
constexpr std::size_t kColumns = 100;

// 0 where there is no limit: prose and data.
std::size_t LineLimit(const File& file) {
  const bool is_source = IsCpp(file.path) && (!IsHeader(file.path) || IsInline(file.path));
  if (is_source || IsBuild(file.path)) return kSourceLines;
  if (IsHeader(file.path)) return kHeaderLines;
  if (IsScript(file) || file.path.ends_with(".bzl")) return kScriptLines;
  return 0;
}

// Of UTF-8: all bytes but those that continue a character.
std::size_t ColumnsOf(std::string_view line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// "mp/base/sync.h" -> MP_BASE_SYNC_H_, "tests/support/clock.h" -> MP_TESTS_SUPPORT_CLOCK_H_.
std::string GuardOf(std::string_view path) {
  std::string guard(path.starts_with("mp/") ? "" : "MP_");
  for (char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    guard += std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return guard + "_";
}

}  // namespace

// What does not fit into a head does not fit into a review. A file that outgrows its limit holds
// two concepts: give the second its own.
Findings CheckSizes(const Tree& tree) {
  Findings findings;
  for (const File& file : tree) {
    const std::size_t limit = LineLimit(file);
    if (limit == 0) continue;
    if (file.lines.size() > limit) {
      findings.push_back({file.path, static_cast<int>(limit) + 1,
                          std::to_string(file.lines.size()) + " lines, more than " +
                              std::to_string(limit) + ": split it by concept"});
    }
    for (int line = 1; const std::string& text : file.lines) {
      if (ColumnsOf(text) > kColumns) {
        findings.push_back({file.path, line,
                            std::to_string(ColumnsOf(text)) + " columns, more than " +
                                std::to_string(kColumns) + ": break the line"});
      }
      ++line;
    }
  }
  return findings;
}

// A guard that is named after its path is never used twice.
Findings CheckGuards(const Tree& tree) {
  Findings findings;
  for (const File& file : tree) {
    if (!IsHeader(file.path) || IsInline(file.path)) continue;
    const std::string guard = GuardOf(file.path);
    const auto first = std::find_if(file.lines.begin(), file.lines.end(),
                                    [](const std::string& line) { return line.starts_with('#'); });
    const int line = static_cast<int>(first - file.lines.begin()) + 1;
    if (first == file.lines.end() || *first != "#ifndef " + guard ||
        first + 1 == file.lines.end() || first[1] != "#define " + guard) {
      findings.push_back({file.path, first == file.lines.end() ? 1 : line,
                          "the first directives are not #ifndef and #define " + guard});
    } else if (file.lines.back() != "#endif  // " + guard) {
      findings.push_back({file.path, static_cast<int>(file.lines.size()),
                          "the last line is not #endif  // " + guard});
    }
  }
  return findings;
}

// A header is its own manual page: what the thing is comes first, for readers who go no further.
Findings CheckIntroductions(const Tree& tree) {
  Findings findings;
  for (const File& file : tree) {
    if (!file.path.starts_with("mp/") || !IsHeader(file.path)) continue;
    if (!file.lines.empty() && file.lines[0].starts_with("// ")) continue;
    findings.push_back({file.path, 1, "does not begin with a comment that says what it is"});
  }
  return findings;
}

}  // namespace mp::tidy
