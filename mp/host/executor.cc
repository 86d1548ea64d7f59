#include "mp/host/executor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"

namespace mp::host {
namespace {

// A pause takes 20 to 60 ns and a yield about 0.5 us, so this is 30 to 100 us of either: longer
// than a thread takes to move to another core, and no more than idle threads may use.
constexpr int kSpins = sync::Looks(1600);
constexpr int kCrowdedSpins = sync::Looks(100);

}  // namespace

bool Patience::Spin(const Executor& executor) {
  if (executor.steps_singly()) return false;
  if (!executor.crowded()) {
    sync::Pause();
    return ++spins_ < kSpins;
  }
  sync::Yield();
  spins_ += kSpins / kCrowdedSpins;
  return spins_ < kSpins;
}

Executor::Executor(const Options& options)
    : execution_(options.execution),
      lanes_(options.threads > 0 ? options.threads : sync::CoreCount()),
      random_(options.seed) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Options& options) {
  std::unique_ptr<Executor> executor(new Executor(options));
  if (options.execution != Execution::kPool) return executor;
  executor->threads_.reserve(static_cast<size_t>(executor->lanes_));  // else one could not be kept
  for (int i = 0; i < executor->lanes_; ++i) {
    MP_ASSIGN_OR_RETURN(sync::Thread thread, sync::Thread::Start(absl::StrCat("mp-pool-", i),
                                                                 [executor = executor.get()] {
                                                                   executor->ThreadMain();
                                                                 }));
    executor->threads_.push_back(std::move(thread));
  }
  return executor;
}

Executor::~Executor() {
  stopping_.exchange(true, sync::kSeqCst);
  signal_.Raise();
  threads_.clear();
}

void Executor::Submit(Runnable& runnable) {
  {
    sync::MutexLock lock(mutex_);
    ready_.Push(&runnable);
    size_.fetch_add(1, sync::kSeqCst);
  }
  WakeOne();
}

void Executor::Share(Job& job, int64_t pieces) {
  {
    sync::MutexLock lock(mutex_);
    Offer(job, pieces);
  }
  WakeOne();
}

bool Executor::ShareAndHelp(Job& job, int64_t pieces) {
  mutex_.Lock();
  Offer(job, pieces);
  while (true) {
    const int64_t piece = ClaimPiece(job);
    mutex_.Unlock();
    job.RunPiece(piece);
    mutex_.Lock();
    --job.running_;
    if (job.unclaimed_ > 0) continue;
    const bool last = job.running_ == 0;
    mutex_.Unlock();
    return last;
  }
}

void Executor::Offer(Job& job, int64_t pieces) {
  const int64_t lanes = lanes_;
  job.next_.resize(static_cast<size_t>(lanes));
  job.end_.resize(static_cast<size_t>(lanes));
  for (int64_t lane = 0; lane < lanes; ++lane) {
    job.next_[static_cast<size_t>(lane)] = pieces * lane / lanes;
    job.end_[static_cast<size_t>(lane)] = pieces * (lane + 1) / lanes;
  }
  job.unclaimed_ = pieces;
  job.running_ = 0;
  jobs_.push_back(&job);
  size_.fetch_add(1, sync::kSeqCst);
}

void Executor::WakeOne() {
  if (somebody_waits_awake()) return;
  // Without threads of its own the sleepers wait for other things as well, and all must look.
  if (has_threads()) {
    signal_.Raise(1);
  } else {
    signal_.Raise();
  }
}

int64_t Executor::ClaimPiece(Job& job) {
  size_t lane = steps_singly() ? static_cast<size_t>(random_() % static_cast<uint64_t>(lanes_))
                               : sync::ThisCore() % static_cast<size_t>(lanes_);
  while (job.next_[lane] == job.end_[lane]) lane = (lane + 1) % static_cast<size_t>(lanes_);
  if (--job.unclaimed_ == 0) {
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    size_.fetch_sub(1, sync::kRelaxed);
  }
  ++job.running_;
  return job.next_[lane]++;
}

bool Executor::HelpOnce() {
  if (size_.load(sync::kSeqCst) == 0) return false;
  mutex_.Lock();
  const size_t choices = ready_.size() + jobs_.size();
  if (choices == 0) {
    mutex_.Unlock();
    return false;
  }
  Runnable* runnable = nullptr;
  Job* job = nullptr;
  int64_t piece = 0;
  const size_t choice = steps_singly() ? static_cast<size_t>(random_() % choices) : 0;
  if (choice < ready_.size()) {
    std::swap(ready_.front(), ready_[choice]);
    runnable = ready_.Pop();
    size_.fetch_sub(1, sync::kRelaxed);
  } else {
    job = jobs_[choice - ready_.size()];
    piece = ClaimPiece(*job);
  }
  const size_t of_job = job != nullptr && job->unclaimed_ > 0 ? 1 : 0;
  const bool only_its_job_is_left = job != nullptr && ready_.size() + jobs_.size() == of_job;
  mutex_.Unlock();

  LeaveWait(only_its_job_is_left);
  if (runnable != nullptr) {
    runnable->Run();
  } else {
    job->RunPiece(piece);
    mutex_.Lock();
    const bool last = --job->running_ == 0 && job->unclaimed_ == 0;
    mutex_.Unlock();
    if (last) job->Finish();
  }
  EnterWait();
  return true;
}

void Executor::ThreadMain() {
  sync::Clock& clock = sync::Clock::Steady();
  Patience patience;
  EnterWait();
  while (!stopping_.load(sync::kSeqCst)) {
    if (HelpOnce()) {
      patience.Reset();
      continue;
    }
    if (!crowded() && patience.Spin(*this)) continue;
    patience.Reset();
    LeaveWait();
    const uint32_t seen = signal_.Prepare();
    if (size_.load(sync::kSeqCst) == 0 && !stopping_.load(sync::kSeqCst)) {
      signal_.Sleep(clock, seen, absl::InfiniteDuration());
    } else {
      signal_.Cancel();
    }
    EnterWait();
  }
  LeaveWait();
}

}  // namespace mp::host
