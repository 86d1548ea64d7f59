#include "mp/host/memory.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"

namespace mp::host {
namespace {

// What the prefetcher takes for one line.
constexpr int64_t kAlignment = 128;

}  // namespace

Memory::~Memory() {
  for (const Deferred& deferred : deferred_) std::free(deferred.data);
}

absl::StatusOr<void*> Memory::Allocate(int64_t bytes) {
  {
    sync::MutexLock lock(mutex_);
    Reap();
  }
  void* data = nullptr;
  if (bytes <= INT64_MAX - kAlignment) {
    const int64_t rounded = (std::max<int64_t>(bytes, 1) + kAlignment - 1) & -kAlignment;
    data = std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
  }
  if (data != nullptr) return data;
  return MakeError(ErrorKind::kDeviceError, absl::StrCat("no memory for ", bytes, " bytes"));
}

void Memory::Free(void* data) {
  sync::MutexLock lock(mutex_);
  Reap();
  Deferred deferred{data, {}};
  for (Stream* stream : streams_) {
    const Event now = stream->Record();
    if (!now.Done()) deferred.uses.push_back(now);
  }
  if (deferred.uses.empty()) return std::free(data);
  deferred_.push_back(std::move(deferred));
}

void Memory::Reap() {
  const auto done = [](const Event& event) { return event.Done(); };
  const auto kept =
      std::partition(deferred_.begin(), deferred_.end(), [&](const Deferred& deferred) {
        return !std::all_of(deferred.uses.begin(), deferred.uses.end(), done);
      });
  for (auto it = kept; it != deferred_.end(); ++it) std::free(it->data);
  deferred_.erase(kept, deferred_.end());
}

void Memory::Add(Stream& stream) {
  sync::MutexLock lock(mutex_);
  streams_.push_back(&stream);
}

void Memory::Remove(Stream& stream) {
  sync::MutexLock lock(mutex_);
  streams_.erase(std::find(streams_.begin(), streams_.end(), &stream));
  for (Deferred& deferred : deferred_) {
    auto& uses = deferred.uses;
    uses.erase(std::remove_if(uses.begin(), uses.end(),
                              [&](const Event& event) { return event.stream == &stream; }),
               uses.end());
  }
}

int64_t Memory::deferred_count() {
  sync::MutexLock lock(mutex_);
  Reap();
  return static_cast<int64_t>(deferred_.size());
}

}  // namespace mp::host
