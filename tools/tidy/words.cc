// Rules about words. Those that a file must not say are written in two pieces here.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tidy/rules.h"
#include "tools/tidy/source.h"

namespace mp::tidy {
namespace {

struct Word {
  std::string_view text;
  std::string_view reason;
};

constexpr std::string_view kNotHere = "nobody else has this path";
constexpr std::string_view kNotADoubt = "finish it, or leave it out and say so in a limitation";
constexpr std::string_view kNoSkip =
    "a case that does not run proves nothing; leave the target out";
constexpr std::string_view kNoHost = "where packages come from is each machine's own affair";

constexpr Word kWords[] = {
    {"TO"
     "DO",
     kNotADoubt},
    {"FIX"
     "ME",
     kNotADoubt},
    {"GTEST"
     "_SKIP",
     kNoSkip},
    {"DIS"
     "ABLED_",
     kNoSkip},
    {"/wo"
     "rk/",
     kNotHere},
    {"/ro"
     "ot/",
     kNotHere},
    {"/fa"
     "rm/",
     kNotHere},
    {"debian"
     ".org",
     kNoHost},
    {"pypi"
     ".org",
     kNoHost},
    {"python"
     "hosted",
     kNoHost},
};

// Names that say nothing: anything can be called so, and then everything is put there.
constexpr std::string_view kEmptyNames[] = {"manager", "handler", "helper",  "helpers",
                                            "util",    "utils",   "context", "contexts"};

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Whether `word` stands in `line` and not inside a longer word or, for a path, below another
// folder.
bool Says(std::string_view line, std::string_view word) {
  for (std::size_t at = line.find(word); at != std::string_view::npos;
       at = line.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool opens = at == 0 || (!IsWordCharacter(line[at - 1]) && line[at - 1] != '_');
    const bool closes =
        end == line.size() || !IsWordCharacter(word.back()) || !IsWordCharacter(line[end]);
    if (opens && closes) return true;
  }
  return false;
}

// "StreamUtil", "stream_util.h" -> stream, util.
std::vector<std::string> WordsIn(std::string_view name) {
  std::vector<std::string> words(1);
  for (char c : name) {
    const bool is_upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if ((is_upper || !IsWordCharacter(c)) && !words.back().empty()) words.emplace_back();
    if (IsWordCharacter(c)) {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return words;
}

// The empty name that `name` contains, or nothing.
std::string EmptyNameIn(std::string_view name) {
  for (const std::string& word : WordsIn(name)) {
    if (std::find(std::begin(kEmptyNames), std::end(kEmptyNames), word) != std::end(kEmptyNames)) {
      return word;
    }
  }
  return "";
}

void AddEmptyName(const File& file, int line, const std::string& name, Findings& findings) {
  const std::string word = EmptyNameIn(name);
  if (word.empty()) return;
  findings.push_back(
      {file.path, line, "\"" + word + "\" in the name " + name + ": say what it is or does"});
}

}  // namespace

// The tree is read by strangers on other machines, and what it promises is done.
Findings CheckWords(const Tree& tree) {
  Findings findings;
  for (const File& file : tree) {
    for (int line = 1; const std::string& text : file.lines) {
      for (const Word& word : kWords) {
        if (!Says(text, word.text)) continue;
        findings.push_back(
            {file.path, line, "says " + std::string(word.text) + ": " + std::string(word.reason)});
      }
      ++line;
    }
  }
  return findings;
}

// Names come from the words of the design, where each means one thing.
Findings CheckNames(const Tree& tree) {
  static const std::regex kDeclaration(R"(\b(?:class|struct|enum|union|concept|namespace|using))"
                                       R"(\s+(?:class\s+|struct\s+)?([A-Za-z_][\w:]*))");
  Findings findings;
  for (const File& file : tree) {
    for (const std::filesystem::path& part : std::filesystem::path(file.path)) {
      AddEmptyName(file, 1, part.string(), findings);
    }
    if (!IsCpp(file.path)) continue;
    for (int line = 1; const std::string& text : CodeOf(file)) {
      for (std::sregex_iterator match(text.begin(), text.end(), kDeclaration), end; match != end;
           ++match) {
        AddEmptyName(file, line, (*match)[1].str(), findings);
      }
      ++line;
    }
  }
  return findings;
}

}  // namespace mp::tidy
