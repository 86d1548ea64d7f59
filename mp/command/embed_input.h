// The lines of text that `mp embed` is given, as token ids, and what was odd about them.
#ifndef MP_COMMAND_EMBED_INPUT_H_
#define MP_COMMAND_EMBED_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mp/model/text/tokenizer.h"

namespace mp::command {

// All bytes of a file, or of stdin for "-" or nothing; of a pipe or a device, too.
absl::StatusOr<std::string> ReadAll(const std::string& path);

// The lines, without their ends (\n or \r\n); a last one without an end counts.
std::vector<absl::string_view> SplitLines(absl::string_view text);

// At most `longest` bytes of a text for one line of a terminal: controls are escaped, what is no
// UTF-8 becomes U+FFFD, and what is cut off is "...".
std::string Shown(absl::string_view text, size_t longest);

struct EncodedLines {
  std::vector<std::vector<int32_t>> ids;
  int64_t tokens = 0;
  int64_t empty = 0;    // without a character but spaces
  int64_t cut = 0;      // longer than the model's limit
  int64_t invalid = 0;  // not UTF-8 throughout
};

EncodedLines EncodeLines(const model::Tokenizer& tokenizer,
                         const std::vector<absl::string_view>& lines, int max_tokens);

}  // namespace mp::command

#endif  // MP_COMMAND_EMBED_INPUT_H_
