// Which threads drive the ranks of a World, and what they run.
#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"
#include "mp/world_state.h"

namespace mp {

// --- Run ---------------------------------------------------------------------------------------

absl::Status WorldState::Run(const Body& body) {
  const uint64_t caller = sync::ThisThread();
  {
    sync::MutexLock lock(mutex_);
    if (closed_) return MakeError(ErrorKind::kClosed, "World::Run: the World is closed");
    if (!options_.rank_threads) {
      return UsageError("World::Run: this World was made without rank threads");
    }
    if (running_) return UsageError("World::Run: another Run is on");
    for (const auto& rank : ranks_) {
      const uint64_t driver = rank->driver.load(sync::kRelaxed);
      if (driver == 0) continue;
      return UsageError("World::Run: ", driver == caller ? "this" : "another",
                        " thread is attached to rank ", rank->id);
    }
    running_ = true;
    first_status_ = absl::OkStatus();
    more_exceptions_ = 0;
    for (auto& counts : join_counts_) counts.clear();  // a failed Run may have left them unequal
    joining_.clear();
  }
  for (int id = 0; id < size(); ++id) ComeBack(id);
  body_ = &body;
  busy_ranks_.store(size(), sync::kSeqCst);
  turn_.fetch_add(1, sync::kSeqCst);
  turn_signal_.Raise();
  while (busy_ranks_.load(sync::kSeqCst) != 0) {
    const uint32_t seen = done_signal_.Prepare();
    if (busy_ranks_.load(sync::kSeqCst) == 0) {
      done_signal_.Cancel();
      break;
    }
    done_signal_.Sleep(sync::Clock::Steady(), seen, absl::InfiniteDuration());
  }
  for (int id = 0; id < size(); ++id) ComeBack(id);
  sync::MutexLock lock(mutex_);
  {
    sync::MutexLock order_lock(backend_->order().mutex);
    *run_ = RunState();
  }
  running_ = false;
  absl::Status status = std::exchange(first_status_, absl::OkStatus());
  if (more_exceptions_ == 0) return status;
  return MakeError(KindOf(status), absl::StrCat(status.message(), "; ", more_exceptions_,
                                                " more of the ranks' functions have thrown"));
}

void WorldState::RankMain(int id) {
  uint64_t done = 0;
  const absl::Status bound = ranks_[static_cast<size_t>(id)]->device->BindThisThread();
  while (true) {
    const uint32_t seen = turn_signal_.Prepare();
    if (stopping_.load(sync::kSeqCst)) return turn_signal_.Cancel();
    if (turn_.load(sync::kSeqCst) == done) {
      turn_signal_.Sleep(sync::Clock::Steady(), seen, absl::InfiniteDuration());
      continue;
    }
    turn_signal_.Cancel();
    ++done;
    absl::Status status =
        bound.ok() ? RunRank(id, *body_) : RunRank(id, [&bound](Rank&) { return bound; });
    if (!maker().is_this()) return;
    {
      sync::MutexLock lock(mutex_);
      if (!status.ok()) {
        if (first_status_.ok()) first_status_ = std::move(status);
        status = absl::OkStatus();
      }
    }
    SetDriver(id, 0);
    busy_ranks_.fetch_sub(1, sync::kSeqCst);
    done_signal_.Raise();
  }
}

absl::Status WorldState::RunRank(int id, const Body& body) {
  SetDriver(id, sync::ThisThread());
  ForgetErrors(id);
  absl::Status status;
  std::string cause;
  try {
    status = body(*doors_[static_cast<size_t>(id)]);
    cause = status.ok() ? "its function has returned OK"
                        : absl::StrCat("its function has returned ",
                                       status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  } catch (const std::exception& error) {
    cause = absl::StrCat("its function has thrown: ", error.what());
    status = MakeError(ErrorKind::kUserException,
                       absl::StrCat("rank ", id, " has thrown: ", error.what()));
  } catch (...) {
    cause = "its function has thrown something that is no std::exception";
    status = MakeError(ErrorKind::kUserException,
                       absl::StrCat("rank ", id, " has thrown something that is no exception"));
  }
  if (!maker().is_this()) return status;  // of a child, which has this thread alone
  const bool failed = !status.ok();
  if (failed) {
    // Before the peers are released, so that what they then return is not the first.
    sync::MutexLock lock(mutex_);
    if (first_status_.ok()) {
      first_status_ = std::exchange(status, absl::OkStatus());
    } else if (KindOf(status) == ErrorKind::kUserException &&
               KindOf(first_status_) == ErrorKind::kUserException) {
      ++more_exceptions_;
    }
  }
  Leave(id, cause, failed);
  absl::Status drained = SynchronizeRank(id, absl::InfiniteDuration());
  return status.ok() ? drained : status;
}

// --- who drives a rank -------------------------------------------------------------------------

void WorldState::SetDriver(int id, uint64_t thread) {
  rank(id).driver.store(thread, sync::kRelaxed);
  rank(id).stream->set_driver(thread);
}

// What nobody has asked for is the former driver's.  Without mutex_, which a look at a stream that
// stands still takes.
void WorldState::ForgetErrors(int id) {
  static_cast<void>(rank(id).stream->Synchronize(absl::ZeroDuration()));
}

// Compute runs at once on the thread that drives its rank, unless that drives others as well: their
// work shall run side by side.
void WorldState::ShareDrivers() {
  for (const auto& rank : ranks_) {
    const uint64_t driver = rank->driver.load(sync::kRelaxed);
    const auto same = std::count_if(ranks_.begin(), ranks_.end(), [&](const auto& other) {
      return other->driver.load(sync::kRelaxed) == driver;
    });
    rank->stream->set_driver(same == 1 ? driver : 0);
  }
}

void WorldState::Leave(int id, const std::string& cause, bool failed) {
  CheckHealth();  // where that has failed it is the cause, and not that the rank has ended
  {
    sync::MutexLock lock(mutex_);
    sync::MutexLock order_lock(backend_->order().mutex);
    rank(id).left = true;
    rank(id).left_cause = cause;
    for (const RankState::Membership& membership : rank(id).memberships) {
      membership.group->MemberLeft(membership.peer, cause);
    }
    if (failed && !run_->failed) {
      run_->failed = true;
      run_->cause = absl::StrCat("rank ", id, ": ", cause);
      for (const auto& group : groups_) {
        if (group->waiting()) group->FailWithRun();
      }
    }
  }
  backend_->order().IssueTicketed();  // what a Group that failed was in the way of
}

void WorldState::ComeBack(int id) {
  sync::MutexLock lock(mutex_);
  sync::MutexLock order_lock(backend_->order().mutex);
  if (!rank(id).left) return;
  rank(id).left = false;
  for (const RankState::Membership& membership : rank(id).memberships) {
    membership.group->MemberCameBack();
  }
}

absl::StatusOr<Rank*> WorldState::Attach(int id) {
  if (id < 0 || id >= size()) {
    return InvalidArgument("World::Attach: rank ", id, " of ", size());
  }
  {
    sync::MutexLock lock(mutex_);
    if (closed_) return MakeError(ErrorKind::kClosed, "World::Attach: the World is closed");
    if (running_) return UsageError("World::Attach: a Run is on");
    if (rank(id).driver.load(sync::kRelaxed) != 0) {
      return UsageError("World::Attach: rank ", id, " is driven by a thread already");
    }
    SetDriver(id, sync::ThisThread());
    ShareDrivers();
  }
  ForgetErrors(id);
  ComeBack(id);
  const absl::Status bound = rank(id).device->BindThisThread();
  if (!bound.ok()) {
    Detach(id);
    return bound;
  }
  return doors_[static_cast<size_t>(id)].get();
}

void WorldState::Detach(int id) {
  Leave(id, "its thread has detached", false);
  ComeBack(id);  // another thread may attach: who calls from now on waits for it
  sync::MutexLock lock(mutex_);
  SetDriver(id, 0);
  ShareDrivers();
}

}  // namespace mp
