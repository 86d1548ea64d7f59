#include "mp/command/progress.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_format.h"

namespace mp::command {

constexpr int kWidth = 40;

Progress::Progress(absl::string_view label, int64_t total, absl::string_view whole, bool wanted)
    : label_(label),
      total_(total),
      whole_(whole),
      shown_(wanted && total > 0 && isatty(STDERR_FILENO) == 1) {
  if (shown_) Draw(0);
}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::Add(int64_t amount) {
  done_ += amount;
  const auto percent =
      static_cast<int64_t>(100 * static_cast<double>(done_) / static_cast<double>(total_));
  if (shown_ && percent != drawn_) Draw(percent);
}

void Progress::Draw(int64_t percent) {
  drawn_ = percent;
  const auto filled = static_cast<size_t>(kWidth * percent / 100);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  absl::FPrintF(stderr, "\rmp %s [%s] %3d%% of %s", label_, bar, percent, whole_);
  std::fflush(stderr);
}

}  // namespace mp::command
