#include "mp/wait_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mp/agreement.h"
#include "mp/group.h"

namespace mp {
namespace {

// Positions of the host's streams have 44 bits.
bool IsAtOrBefore(uint64_t place, uint64_t position) {
  return place != Operation::kNowhere && static_cast<int64_t>((position - place) << 20) >= 0;
}

void Add(const Pending& pending, std::vector<Pending>& operations) {
  const auto same = [&](const Pending& other) { return other.operation == pending.operation; };
  if (std::any_of(operations.begin(), operations.end(), same)) return;
  operations.push_back(pending);
}

}  // namespace

const Wait* WaitGraph::WaitOf(uint64_t thread) const {
  for (const Wait* wait : order_.waits) {
    if (wait->thread() == thread && wait->endless()) return wait;
  }
  return nullptr;
}

// Those without a ticket that the thread cannot go on without.
std::vector<Pending> WaitGraph::OperationsOf(const Wait& wait) const {
  std::vector<Pending> operations;
  std::vector<Event> places;
  if (wait.stream() != nullptr) places.push_back(Event{wait.stream(), wait.position()});
  const auto is_awaited = [&](const RankState& rank, const Pending& pending) {
    if (pending.group == wait.group()) return pending.operation->sequence == wait.sequence();
    const auto peer = static_cast<size_t>(pending.group->PeerOf(rank));
    return std::any_of(places.begin(), places.end(), [&](const Event& place) {
      return pending.operation->streams[peer] == place.stream &&
             IsAtOrBefore(pending.operation->positions[peer], place.position);
    });
  };
  for (size_t i = 0; i < places.size() && i < 64; ++i) {  // streams may wait for streams
    const Event place = places[i];
    place.stream->AppendAwaited(place.position, places);
  }
  for (const auto& rank : ranks_) {
    for (size_t i = 0; i < rank->pending.size(); ++i) {
      if (is_awaited(*rank, rank->pending[i])) Add(rank->pending[i], operations);
    }
  }
  return operations;
}

// Adds what must have its ticket before.
void WaitGraph::AppendOlder(std::vector<Pending>& operations) const {
  for (size_t next = 0; next < operations.size(); ++next) {
    const Pending operation = operations[next];
    for (int peer = 0; peer < operation.group->size(); ++peer) {
      const RingQueue<Pending>& pending = operation.group->member(peer).pending;
      size_t behind = 0;
      while (behind < pending.size() && pending[behind].operation != operation.operation) ++behind;
      if (behind == pending.size()) continue;  // the rank has not posted it
      for (size_t i = 0; i < behind; ++i) Add(pending[i], operations);
    }
  }
}

bool WaitGraph::Visit(const Wait& wait) {
  seen_.push_back(wait.thread());
  std::vector<Pending> operations = OperationsOf(wait);
  AppendOlder(operations);
  for (const Pending& operation : operations) {
    path_.push_back(Step{&wait, operation});
    for (const int id : operation.group->MissingRanks(operation.operation->sequence)) {
      const RankState& rank = *ranks_[static_cast<size_t>(id)];
      const uint64_t driver = rank.driver.load(sync::kRelaxed);
      if (driver == 0 || rank.left) continue;
      const auto on_it = [&](const Step& step) { return step.wait->thread() == driver; };
      if (std::any_of(path_.begin(), path_.end(), on_it)) return true;
      if (std::find(seen_.begin(), seen_.end(), driver) != seen_.end()) continue;
      const Wait* const next = WaitOf(driver);
      if (next != nullptr && Visit(*next)) return true;
    }
    path_.pop_back();
  }
  return false;
}

// "rank 0 waits in operation 3 of Region "a" (AllReduce f32[4] sum) for rank 1; rank 1 waits ..."
std::string WaitGraph::Table() const {
  std::string table;
  for (const Step& step : path_) {
    std::vector<int> driven;
    for (const auto& rank : ranks_) {
      if (rank->driver.load(sync::kRelaxed) == step.wait->thread()) driven.push_back(rank->id);
    }
    const Operation& operation = *step.operation.operation;
    absl::StrAppend(
        &table, table.empty() ? "" : "; ", driven.empty() ? "another thread" : RankList(driven),
        driven.size() > 1 ? " (one thread)" : "", driven.size() > 1 ? " wait" : " waits",
        " in operation ", operation.sequence, " of Region \"", step.operation.group->name(), "\" (",
        Describe(operation.steps), ") for ",
        RankList(step.operation.group->MissingRanks(operation.sequence)));
  }
  return table;
}

bool WaitGraph::FailDeadlock(const Wait& wait) {
  path_.clear();
  seen_.clear();
  if (!wait.endless() || !Visit(wait)) return false;
  const std::string table = Table();
  for (const Step& step : path_) {
    const uint64_t sequence = step.operation.operation->sequence;
    step.operation.group->FailLocked(
        sequence, ErrorKind::kAbsentShard,
        absl::StrCat(step.operation.group->Head(sequence), ": deadlock: ", table));
  }
  return true;
}

}  // namespace mp
