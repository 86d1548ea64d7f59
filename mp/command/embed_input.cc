#include "mp/command/embed_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "mp/base/status.h"
#include "mp/files/printable.h"
#include "mp/files/system.h"
#include "mp/model/text/utf8.h"

namespace mp::command {

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  const bool is_stdin = path.empty() || path == "-";
  files::FileDescriptor file;
  if (!is_stdin) {
    file = files::FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return files::SystemError(errno, path, "cannot be opened");
  }
  const int number = is_stdin ? STDIN_FILENO : file.number();
  const std::string name = is_stdin ? "stdin" : path;
  constexpr size_t kChunk = size_t{1} << 20;
  std::string text;
  while (true) {
    const size_t size = text.size();
    try {
      text.resize(size + kChunk);
    } catch (const std::bad_alloc&) {
      return MakeError(ErrorKind::kDeviceError, absl::StrCat(files::Printable(name), ": no memory ",
                                                             "for more than ", size, " bytes"));
    }
    const ssize_t count = read(number, text.data() + size, kChunk);
    const int error = errno;
    text.resize(size + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return text;
    if (count < 0 && error != EINTR) return files::SystemError(error, name, "cannot be read");
  }
}

std::vector<absl::string_view> SplitLines(absl::string_view text) {
  std::vector<absl::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(absl::StripSuffix(text.substr(0, end), "\r"));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string Shown(absl::string_view text, size_t longest) {
  std::string shown;
  while (!text.empty()) {
    const model::Character next = model::FirstCharacter(text);
    const std::string character =
        files::Printable(next.is_valid ? text.substr(0, next.size_bytes) : "\xEF\xBF\xBD");
    if (shown.size() + character.size() > longest) return shown + "...";
    shown += character;
    text.remove_prefix(next.size_bytes);
  }
  return shown;
}

EncodedLines EncodeLines(const model::Tokenizer& tokenizer,
                         const std::vector<absl::string_view>& lines, int max_tokens) {
  EncodedLines encoded;
  encoded.ids.reserve(lines.size());
  for (const absl::string_view line : lines) {
    // One token more tells whether there was more.
    std::vector<int32_t> ids = tokenizer.Encode(line, max_tokens + 1);
    if (ids.size() > static_cast<size_t>(max_tokens)) {
      ids.erase(ids.end() - 2);
      ++encoded.cut;
    }
    encoded.tokens += static_cast<int64_t>(ids.size());
    encoded.empty += absl::StripAsciiWhitespace(line).empty() ? 1 : 0;
    encoded.invalid += model::IsUtf8(line) ? 0 : 1;
    encoded.ids.push_back(std::move(ids));
  }
  return encoded;
}

}  // namespace mp::command
