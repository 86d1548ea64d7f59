#include "mp/trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mp {

TraceTotals& TraceTotals::operator+=(const TraceTotals& more) {
  compute += more.compute;
  all_reduce += more.all_reduce;
  gather += more.gather;
  other += more.other;
  return *this;
}

// --- one stream --------------------------------------------------------------------------------

Track::~Track() {
  while (first_ != nullptr) first_ = std::move(first_->next);  // without a deep stack
}

void Track::Add(const Span& span) {
  auto& sum = nanoseconds_[static_cast<size_t>(span.kind)];
  sum.store(sum.load(sync::kRelaxed) + absl::ToInt64Nanoseconds(span.end - span.begin),
            sync::kRelaxed);
  if (!keep_spans_) return;
  const size_t count = count_.load(sync::kRelaxed);
  const size_t place = count % kChunkSpans;
  if (place == 0) {
    std::unique_ptr<Chunk>& next = last_ == nullptr ? first_ : last_->next;
    next = std::make_unique<Chunk>();
    last_ = next.get();
  }
  last_->spans[place] = span;
  count_.store(count + 1, sync::kRelease);
}

std::vector<Span> Track::spans() const {
  size_t left = count_.load(sync::kAcquire);
  std::vector<Span> spans;
  spans.reserve(left);
  // Only links that were made before the count was written are looked at.
  for (const std::unique_ptr<Chunk>* next = &first_; left > 0; next = &(*next)->next) {
    const auto& chunk = (*next)->spans;
    const size_t size = std::min(left, chunk.size());
    spans.insert(spans.end(), chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(size));
    left -= size;
  }
  return spans;
}

TraceTotals Track::totals() const {
  const auto sum = [this](SpanKind kind) {
    return absl::Nanoseconds(nanoseconds_[static_cast<size_t>(kind)].load(sync::kRelaxed));
  };
  return {.compute = sum(SpanKind::kCompute),
          .all_reduce = sum(SpanKind::kAllReduce),
          .gather = sum(SpanKind::kGather) + sum(SpanKind::kAllGather),
          .other = sum(SpanKind::kAcquireSlot) + sum(SpanKind::kGraph) + sum(SpanKind::kBatch)};
}

// --- one World ---------------------------------------------------------------------------------

Track& WorldTrace::NewTrack(int rank, absl::string_view name) {
  sync::MutexLock lock(mutex_);
  tracks_.push_back(std::make_unique<Track>(clock_, keep_spans_, rank, name));
  return *tracks_.back();
}

const std::string* WorldTrace::NewRegion(absl::string_view name) {
  sync::MutexLock lock(mutex_);
  return &regions_.emplace_back(name);
}

std::vector<const Track*> WorldTrace::tracks() const {
  sync::MutexLock lock(mutex_);
  std::vector<const Track*> tracks;
  for (const auto& track : tracks_) tracks.push_back(track.get());
  return tracks;
}

TraceTotals WorldTrace::TotalsOf(int rank) const {
  TraceTotals totals;
  for (const Track* track : tracks()) {
    if (track->rank() == rank) totals += track->totals();
  }
  return totals;
}

// --- all Worlds --------------------------------------------------------------------------------

WorldTrace& Trace::NewWorld(absl::string_view name, sync::Clock& clock) {
  sync::MutexLock lock(mutex_);
  worlds_.push_back(std::make_unique<WorldTrace>(
      name.empty() ? absl::StrCat("World ", worlds_.size() + 1) : std::string(name), clock,
      options_.keep_spans));
  return *worlds_.back();
}

std::vector<const WorldTrace*> Trace::worlds() const {
  sync::MutexLock lock(mutex_);
  std::vector<const WorldTrace*> worlds;
  for (const auto& world : worlds_) worlds.push_back(world.get());
  return worlds;
}

TraceTotals Trace::TotalsOf(int rank) const {
  TraceTotals totals;
  for (const WorldTrace* world : worlds()) totals += world->TotalsOf(rank);
  return totals;
}

}  // namespace mp
