// What a World says of itself.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mp/agreement.h"
#include "mp/wait.h"
#include "mp/world_state.h"

namespace mp {
namespace {

// How often Health asks for a lock that is held for a moment, or for long.
constexpr int kTries = 100;

// The post of `peer` that `pending` is, which its rank's ring may have forgotten.
RecentOperation OutlineOf(const Pending& pending, const RankState& rank,
                          const CycleClock::Reading& now) {
  const Operation& operation = *pending.operation;
  const auto peer = static_cast<size_t>(pending.group->PeerOf(rank));
  std::vector<Part> parts;
  for (int step = 0; step < operation.step_count(); ++step) {
    parts.push_back(operation.step_parts(step)[peer]);
  }
  FlightRing one;
  one.Add(*pending.group->log(), operation.sequence, operation.steps, parts,
          operation.streams[peer] != rank.stream.get(), pending.cycles);
  return one.Recent(rank.id, now)[0];
}

void Locate(const RankState& rank, const Order& order, RankHealth& health) {
  const uint64_t driver = rank.driver.load(sync::kRelaxed);
  if (rank.left) {
    health.place = RankHealth::Place::kLeft;
    health.where = rank.left_cause;
  } else if (driver != 0) {
    health.place = RankHealth::Place::kBusy;
  }
  if (driver == 0) return;
  for (const Wait* wait : order.waits) {
    if (wait->thread() != driver) continue;
    health.place = RankHealth::Place::kWaiting;
    health.where = wait->group() != nullptr ? wait->group()->Head(wait->sequence())
                                            : absl::StrCat("for ", wait->stream()->name());
  }
}

WorldHealth::State StateOf(ErrorKind kind) {
  return kind == ErrorKind::kDeviceLost ? WorldHealth::State::kLost : WorldHealth::State::kBroken;
}

}  // namespace

// The last that is finished and the first that is not; `recent` and `places` go together.
void WorldState::SetProgress(const std::vector<RecentOperation>& recent,
                             const std::vector<FlightRing::Place>& places, const Groups& groups,
                             RankHealth& health) {
  std::optional<RecentOperation> oldest;
  for (size_t i = 0; i < recent.size(); ++i) {
    if (recent[i].dropped) continue;
    if (HasRun(recent[i], places[i], rank(health.rank), groups)) {
      health.finished = recent[i];
    } else if (!oldest.has_value()) {
      oldest = recent[i];
    }
  }
  if (!oldest.has_value()) return;
  if (!health.pending.has_value() || oldest->posted <= health.pending->posted) {
    if (oldest->agreed != absl::InfiniteDuration()) health.missing.clear();
    health.pending = std::move(oldest);
  }
}

bool WorldState::HasRun(const RecentOperation& operation, const FlightRing::Place& place,
                        const RankState& rank, const Groups& groups) {
  if (operation.completed != absl::InfiniteDuration()) return true;
  if (operation.issued == absl::InfiniteDuration()) return false;
  if (place.position == Operation::kNowhere) return false;  // its end would have been told
  if (!operation.overlaps) return rank.stream->HasPassed(place.position);
  const auto of = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
    return group->log().get() == place.region;
  });
  return of != groups.end() && (*of)->comm_stream((*of)->PeerOf(rank)).HasPassed(place.position);
}

// With the Order lock held.
void WorldState::SetState(const Groups& groups, WorldHealth& health) const {
  const auto dropped = [&](const RegionLog& log) {  // the World alone holds it
    return std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
      return group->log().get() == &log && group.use_count() == 2;
    });
  };
  std::vector<const RegionLog*> failed;
  for (const auto& region : flight_->regions) {
    const ErrorKind kind = region->failure().kind;
    if (kind == ErrorKind::kNone || kind == ErrorKind::kClosed) continue;
    if (region.use_count() == 1 || dropped(*region)) continue;
    failed.push_back(region.get());
  }
  std::stable_sort(failed.begin(), failed.end(), [](const RegionLog* a, const RegionLog* b) {
    return a->failed_at() < b->failed_at();
  });
  for (const RegionLog* region : failed) {
    const Failure& failure = region->failure();
    health.failed_regions.push_back({region->name(), failure.kind, failure.message});
  }
  const auto set = [&](WorldHealth::State state, const Failure& failure) {
    health.state = state;
    health.kind = failure.kind;
    health.cause = failure.message;
  };
  if (!failed.empty()) set(WorldHealth::State::kFailed, failed[0]->failure());
  if (flight_->broken.failed()) set(StateOf(flight_->broken.kind), flight_->broken);
  const absl::Status lost = backend_->CheckNotLost();
  if (!lost.ok()) {
    set(WorldHealth::State::kLost, {KindOf(lost), std::string(lost.message())});
  }
  if (flight_->closed && health.state != WorldHealth::State::kLost) {
    set(WorldHealth::State::kClosed, Failure());
  }
}

WorldHealth WorldState::Health() {
  WorldHealth health;
  // Not where a Region is being made, which may take long: what stands on CUDA's comm streams then
  // counts as running.
  Groups groups;
  for (int i = 0; i < kTries; ++i, sync::Yield()) {
    if (!mutex_.TryLock()) continue;
    groups = groups_;
    mutex_.Unlock();
    break;
  }
  std::vector<std::vector<RecentOperation>> recent;
  std::vector<std::vector<FlightRing::Place>> places;
  const CycleClock::Reading now = flight_->clock.Now();
  {
    sync::MutexLock lock(backend_->order().mutex);
    SetState(groups, health);
    for (const auto& rank : ranks_) {
      RankHealth& one = health.ranks.emplace_back();
      one.rank = rank->id;
      Locate(*rank, backend_->order(), one);
      recent.push_back(rank->flight.Recent(rank->id, now));
      places.push_back(rank->flight.Places());
      if (rank->pending.empty()) continue;
      const Pending& first = rank->pending.front();
      one.pending = OutlineOf(first, *rank, now);
      one.missing = first.group->MissingRanks(first.operation->sequence);
    }
  }
  for (size_t i = 0; i < health.ranks.size(); ++i) {
    RankHealth& one = health.ranks[i];
    SetProgress(recent[i], places[i], groups, one);
    if (!one.pending.has_value()) continue;
    one.age = std::max(now.elapsed() - one.pending->posted, absl::ZeroDuration());
  }
  return health;
}

}  // namespace mp
