// What ends a Group, and what it says of itself.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mp/agreement.h"
#include "mp/group.h"

namespace mp {

// --- failure -----------------------------------------------------------------------------------

void Group::Fail(ErrorKind kind, absl::string_view message) {
  if (!order_.maker.is_this()) return;
  {
    sync::MutexLock lock(order_.mutex);
    FailLocked(window_begin_, kind, std::string(message));
  }
  order_.IssueTicketed();  // what it was in the way of
}

void Group::FailLocked(uint64_t from, ErrorKind kind, std::string message) {
  if (failure_.failed()) return;
  // What some rank has not posted cannot be posted any more.
  for (size_t i = 0; i < window_.size(); ++i) {
    if (window_[i].operation->posted == size()) continue;
    from = std::min(from, window_[i].operation->sequence);
    break;
  }
  failure_ = Failure{kind, std::move(message), RecentPosts(kind, from)};
  failed_from_ = from;
  order_.last_post = sync::Cycles();  // what was behind goes on now
  log_->Failed(from, failure_, order_.last_post);
  failed_.store(true, sync::kSeqCst);  // before anybody is released who might look
  std::vector<Pending> next;
  DropFrom(from, next);
  progress_.Raise();
  GiveTickets(std::move(next));
}

void Group::Break(const Failure& cause) {
  if (communicator_ == nullptr || std::exchange(broken_, true)) return;
  FailLocked(0, cause.kind, absl::StrCat("Region \"", name(), "\": ", cause.message));
  failed_from_ = 0;
  log_->Failed(0, failure_, order_.last_post);
  for (int peer = 0; peer < size(); ++peer) {
    if (next_[static_cast<size_t>(peer)] == 0) continue;  // nothing of it was ever under way
    member(peer).stream->Report(failure_.With(OnRank(peer)));
  }
}

void Group::DropFrom(uint64_t from, std::vector<Pending>& next) {
  for (const auto& member : members_) {
    const Operation* front = member->pending.empty() ? nullptr : member->pending.front().operation;
    member->pending.RemoveIf([&](const Pending& pending) {
      return pending.group == this && pending.operation->sequence >= from;
    });
    if (member->pending.empty() || member->pending.front().operation == front) continue;
    const Pending& now = member->pending.front();
    ++now.operation->oldest;
    if (Ready(*now.operation)) next.push_back(now);
  }
  for (size_t i = 0; i < window_.size(); ++i) {
    Operation& operation = *window_[i].operation;
    if (operation.sequence < from) continue;
    for (int peer = 0; peer < size(); ++peer) {
      if (next_[static_cast<size_t>(peer)] <= operation.sequence) continue;
      member(peer).stream->Report(failure_.With(OnRank(peer)));
    }
    operation.recordings.clear();  // their ranks hold them while they are told
    communicator_->Drop(operation);
  }
  window_.RemoveIf([&](const Slot& slot) { return slot.operation->sequence >= from; });
}

void Group::MemberLeft(int peer, absl::string_view cause) {
  ++left_;
  const uint64_t sequence = next_[static_cast<size_t>(peer)];
  if (window_begin_ + window_.size() <= sequence) return;
  const Operation& operation = *window_[sequence - window_begin_].operation;
  FailLocked(
      sequence, ErrorKind::kAbsentShard,
      absl::StrCat(Head(sequence), " (", Describe(operation.steps), "): rank ", member(peer).id,
                   " cannot come, ", cause, " after ", sequence, " operations of this Region"));
}

void Group::FailWithRun() {
  FailLocked(window_begin_, ErrorKind::kAbsentShard,
             absl::StrCat(Head(window_begin_), ": the Run has failed, ", options_.run->cause));
}

// What the ranks posted last: those first that have not posted the operation.
std::string Group::RecentPosts(ErrorKind kind, uint64_t sequence) const {
  constexpr size_t kMostRanks = 8, kMostPosts = 3;
  if (kind != ErrorKind::kMismatch && kind != ErrorKind::kAbsentShard) return "";
  std::vector<const RankState*> ranks;
  for (const auto& member : members_) ranks.push_back(member.get());
  std::stable_partition(ranks.begin(), ranks.end(), [&](const RankState* rank) {
    return next_[static_cast<size_t>(PeerOf(*rank))] <= sequence;
  });
  const CycleClock::Reading now = options_.flight->clock.Now();
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kMostRanks); ++i) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "rank ", ranks[i]->id, ": ");
    const auto recent = ranks[i]->flight.Recent(ranks[i]->id, now, kMostPosts);
    if (recent.empty()) absl::StrAppend(&text, "nothing posted");
    for (size_t post = 0; post < recent.size(); ++post) {
      absl::StrAppend(&text, post == 0 ? "" : ", then ", ToString(recent[post], now.elapsed()));
    }
  }
  if (ranks.size() > kMostRanks)
    absl::StrAppend(&text, "; and ", ranks.size() - kMostRanks, " more");
  return text;
}

bool Group::waiting() const { return !window_.empty(); }

std::vector<int> Group::MissingRanks(uint64_t sequence) const {
  std::vector<int> missing;
  for (size_t peer = 0; peer < members_.size(); ++peer) {
    if (next_[peer] <= sequence) missing.push_back(ranks_[peer]);
  }
  return missing;
}

// What `slot` waits for, after it has waited for `waited`.
std::string Group::Absence(const Slot& slot, absl::Duration waited) const {
  const Operation& operation = *slot.operation;
  const std::vector<int> missing = MissingRanks(operation.sequence);
  const std::string head =
      absl::StrCat(Head(operation.sequence), " (", Describe(operation.steps), "): ");
  if (missing.empty()) {
    return absl::StrCat(head, "older operations of its ranks in other Regions have kept it ",
                        "waiting for ", absl::FormatDuration(waited));
  }
  std::string lasts;
  for (size_t peer = 0; peer < ranks_.size(); ++peer) {
    if (next_[peer] > operation.sequence) continue;
    absl::StrAppend(&lasts, "; rank ", ranks_[peer], " has posted ", next_[peer],
                    " operations of this Region");
  }
  return absl::StrCat(head, RankList(missing), " did not come within ",
                      absl::FormatDuration(std::min(waited, slot.absence_timeout)), lasts);
}

absl::Duration Group::CheckAbsence(absl::Duration now, std::vector<std::string>& warnings) {
  absl::Duration sleep = absl::InfiniteDuration();
  for (size_t i = 0; i < window_.size(); ++i) {
    Slot& slot = window_[i];
    if (!slot.stall_seen) {
      slot.stall_seen = true;
      slot.stalled_since = now;
    }
    const absl::Duration waited = now - slot.stalled_since;
    if (waited >= slot.absence_timeout) {
      FailLocked(slot.operation->sequence, ErrorKind::kAbsentShard, Absence(slot, waited));
      return absl::InfiniteDuration();
    }
    sleep = std::min(sleep, slot.absence_timeout - waited);
    if (i > 0 || slot.warned) continue;  // what the first one waits for, the others do
    if (waited >= options_.absence_warning) {
      slot.warned = true;
      warnings.push_back(absl::StrCat("mp: still waiting: ", Absence(slot, waited)));
    } else {
      sleep = std::min(sleep, options_.absence_warning - waited);
    }
  }
  return sleep;
}

// --- asking ------------------------------------------------------------------------------------

absl::Status Group::status() const {
  MP_RETURN_IF_ERROR(order_.maker.Check());
  sync::MutexLock lock(order_.mutex);
  return failure_.failed() ? failure_.ToStatus() : backend_->CheckNotLost();
}

absl::Status Group::StatusOf(uint64_t sequence) const {
  MP_RETURN_IF_ERROR(order_.maker.Check());
  if (!failed_.load(sync::kAcquire)) return absl::OkStatus();
  sync::MutexLock lock(order_.mutex);
  return sequence >= failed_from_ ? failure_.ToStatus() : absl::OkStatus();
}

bool Group::AllRetired() const {
  sync::MutexLock lock(order_.mutex);
  size_t returned = free_.size();
  for (const Operation* it = retired_.load(sync::kAcquire); it != nullptr; it = it->next_retired) {
    ++returned;
  }
  return returned == operations_.size();
}

bool Group::IsIdle() {
  if (weak_from_this().use_count() != 1 || !AllRetired()) return false;
  // Nothing is queued any more.  On a GPU a fresh event has not passed when it is first asked.
  if (ends_.empty()) {
    for (const auto& stream : comm_streams_) ends_.push_back(stream->Record());
  }
  return std::all_of(ends_.begin(), ends_.end(), [](const Event& end) { return end.Done(); });
}

std::string Group::Head(uint64_t sequence) const {
  return absl::StrCat("Region \"", name(), "\", operation ", sequence);
}

std::string Group::OnRank(int peer) const {
  return absl::StrCat(" (this is rank ", ranks_[static_cast<size_t>(peer)], ")");
}

}  // namespace mp
