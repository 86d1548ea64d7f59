#include "mp/flight.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mp {
namespace {

int64_t BytesOf(const Descriptor& step, const Part& part) {
  if (!MovesData(step.kind)) return 0;
  const int64_t size = SizeOf(step.dtype);
  if (step.dim < 0) return step.shape.elements() * size;
  return step.shape.Product(0, step.dim) * part.input_extent *
         step.shape.Product(step.dim + 1, step.shape.rank()) * size;
}

}  // namespace

std::string ToString(const RecentOperation& operation, absl::Duration now) {
  const auto rounded = [](absl::Duration duration) {
    return absl::FormatDuration(absl::Trunc(duration, absl::Microseconds(1)));
  };
  const absl::Duration never = absl::InfiniteDuration();
  absl::string_view state = "not agreed on";
  if (operation.agreed != never) state = "agreed on";
  if (operation.issued != never) state = "issued";
  if (operation.completed != never) state = "done";
  if (operation.dropped) state = "dropped";
  return absl::StrCat(operation.name, " ", operation.sequence, " of Region \"", operation.region,
                      "\", posted ", rounded(std::max(now - operation.posted, absl::Duration())),
                      " ago, ", state);
}

// --- the times of a Region -----------------------------------------------------------------------

// A time is written before the number that it belongs to: who reads the number has the time.  Two
// operations that end at the same moment may leave each other's, which differ by as much.
void RegionLog::Agreed(uint64_t sequence, uint64_t cycles) {
  Slot& slot = slots_[sequence % kDepth];
  slot.agreed.store(cycles, sync::kRelaxed);
  slot.agreed_sequence.store(sequence, sync::kRelease);
}

void RegionLog::Issued(uint64_t sequence, uint64_t cycles) {
  Slot& slot = slots_[sequence % kDepth];
  slot.issued.store(cycles, sync::kRelaxed);
  slot.issued_sequence.store(sequence, sync::kRelease);
}

void RegionLog::Completed(uint64_t sequence, uint64_t cycles) {
  Slot& slot = slots_[sequence % kDepth];
  slot.completed.store(cycles, sync::kRelaxed);
  slot.completed_sequence.store(sequence, sync::kRelease);
}

void RegionLog::Failed(uint64_t from, const Failure& failure, uint64_t cycles) {
  failed_from_.store(from, sync::kRelaxed);
  if (failure_.failed()) return;
  failure_ = failure;
  failed_at_ = cycles;
}

RegionLog::Times RegionLog::TimesOf(uint64_t sequence) const {
  const Slot& slot = slots_[sequence % kDepth];
  const auto time = [sequence](const sync::Atomic<uint64_t>& number,
                               const sync::Atomic<uint64_t>& cycles) {
    return number.load(sync::kAcquire) == sequence ? cycles.load(sync::kRelaxed) : 0;
  };
  Times times{.agreed = time(slot.agreed_sequence, slot.agreed),
              .issued = time(slot.issued_sequence, slot.issued),
              .completed = time(slot.completed_sequence, slot.completed)};
  times.dropped = sequence >= failed_from_.load(sync::kRelaxed);
  return times;
}

// --- the posts of a rank -------------------------------------------------------------------------

void FlightRing::Add(RegionLog& region, uint64_t sequence, absl::Span<const Descriptor> steps,
                     absl::Span<const Part> parts, bool overlaps, uint64_t cycles) {
  Post& post = posts_[count_++ % kDepth];
  post.region = &region;
  post.sequence = sequence;
  post.cycles = cycles;
  post.position = Operation::kNowhere;
  post.steps = static_cast<int>(steps.size());
  post.overlaps = overlaps;
  post.one_kind = !steps.empty();
  post.bytes = 0;
  if (steps.empty()) return;
  post.kind = steps[0].kind;
  post.dtype = steps[0].dtype;
  for (size_t i = 0; i < steps.size(); ++i) {
    post.one_kind = post.one_kind && steps[i].kind == post.kind;
    post.bytes += BytesOf(steps[i], parts[i]);
  }
}

void FlightRing::SetPosition(uint64_t position) {
  posts_[(count_ - 1) % kDepth].position = position;
}

std::vector<FlightRing::Place> FlightRing::Places() const {
  std::vector<Place> places;
  for (uint64_t i = count_ - std::min<uint64_t>(count_, kDepth); i < count_; ++i) {
    places.push_back({posts_[i % kDepth].region, posts_[i % kDepth].position});
  }
  return places;
}

std::vector<RecentOperation> FlightRing::Recent(int rank, const CycleClock::Reading& now,
                                                size_t most) const {
  const auto time = [&now](uint64_t cycles) {
    return cycles == 0 ? absl::InfiniteDuration() : now.Since(cycles);
  };
  std::vector<RecentOperation> recent;
  const uint64_t size = std::min<uint64_t>({count_, most, kDepth});
  for (uint64_t i = count_ - size; i < count_; ++i) {
    const Post& post = posts_[i % kDepth];
    const RegionLog::Times times = post.region->TimesOf(post.sequence);
    RecentOperation operation;
    operation.rank = rank;
    operation.region = post.region->name();
    operation.sequence = post.sequence;
    operation.name = post.one_kind ? OpKindName(post.kind) : "Batch";
    operation.steps = post.steps;
    operation.dtype = post.dtype;
    operation.bytes = post.bytes;
    operation.overlaps = post.overlaps;
    operation.dropped = times.dropped;
    operation.posted = time(post.cycles);
    operation.agreed = time(times.agreed);
    operation.issued = time(times.issued);
    operation.completed = time(times.completed);
    recent.push_back(std::move(operation));
  }
  return recent;
}

bool FlightRing::Mentions(const RegionLog& region) const {
  return std::any_of(posts_.begin(), posts_.end(),
                     [&](const Post& post) { return post.region == &region; });
}

}  // namespace mp
