#include "mp/host/stream.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "mp/base/check.h"
#include "mp/base/status.h"
#include "mp/callback.h"
#include "mp/host/kernels/copy.h"
#include "mp/host/kernels/fold.h"
#include "mp/host/kernels/fp_mode.h"
#include "mp/host/operation.h"
#include "mp/trace.h"

namespace mp::host {
namespace {

struct CopyKernel {
  static constexpr char kName[] = "Copy";
  TensorView source, target;
  void operator()() const {
    if (source.size_bytes() == 0 || source.data() == target.data()) return;
    CopyRows(target.data(), target.row_pitch(), source.data(), source.row_pitch(),
             source.row_bytes(), source.rows(), source.size_bytes() > StreamingThresholdBytes());
  }
};

struct ScaleKernel {
  static constexpr char kName[] = "Scale";
  TensorView source, target;
  double factor;
  void operator()() const {
    ScopedStandardFpMode standard;
    const void* from = source.data();
    void* to = target.data();
    FoldOptions options;
    options.scale = factor;
    FoldFor(source.dtype(), ReduceOp::kSum)(&from, 1, &to, 1, 0, source.shape().elements(),
                                            options);
  }
};

}  // namespace

void Strands::Push(HostStream& stream) {
  stream.next_ = nullptr;
  *last_ = &stream;
  last_ = &stream.next_;
}

HostStream* Strands::Pop() {
  HostStream* stream = first_;
  if (stream == nullptr) return nullptr;
  first_ = stream->next_;
  if (first_ == nullptr) last_ = &first_;
  return stream;
}

HostStream::HostStream(Executor& executor, Memory& memory, sync::Clock& clock, int device)
    : executor_(executor), memory_(memory), clock_(clock), device_(device) {
  memory_.Add(*this);
}

HostStream::~HostStream() {
  if (!maker().is_this()) return;
  while (Pending(state_.load(sync::kAcquire)) != 0) {
    if (!HelpOnce()) sync::Yield();
  }
  const uint64_t state = state_.load(sync::kAcquire);
  // Whoever finished the last piece may still be about to signal.
  const auto left = [&] { return Submitted(finished_.load(sync::kAcquire) << kPendingBits); };
  while (left() != Submitted(state)) sync::Yield();
  set_driver(0);
  memory_.Remove(*this);
}

// --- submitting ------------------------------------------------------------------------------

bool HostStream::Push(Work work) {
  sync::MutexLock lock(mutex_);
  queued_waits_ += work.kind == Work::Kind::kWait ? 1 : 0;
  queue_.Push(std::move(work));
  return Pending(state_.fetch_add(kOneSubmitted, sync::kAcqRel)) == 0;
}

bool HostStream::PushPlace(HostOperation& operation, int peer) {
  Work work;
  work.kind = Work::Kind::kPlace;
  work.operation = &operation;
  work.peer = peer;
  return Push(std::move(work));
}

bool HostStream::PushCompute(const Kernel& kernel) {
  Work work;
  work.kernel = &kernel;
  return Push(std::move(work));
}

bool HostStream::PushWait(const Event& event) {
  Work work;
  work.kind = Work::Kind::kWait;
  work.event = event;
  return Push(std::move(work));
}

bool HostStream::PushEnd(HostOperation& launch, int peer) {
  Work work;
  work.kind = Work::Kind::kEnd;
  work.operation = &launch;
  work.peer = peer;
  return Push(std::move(work));
}

absl::Status HostStream::DoCheckRoom() const {
  if (Pending(state_.load(sync::kRelaxed)) <= kMostPending) return absl::OkStatus();
  return MakeError(ErrorKind::kDeviceError,
                   absl::StrCat("more than ", kMostPending, " pieces of work on one stream"));
}

absl::Status HostStream::DoLaunch(Kernel kernel) {
  if (executor_.runs_at_once() && driver() == sync::ThisThread() && TryOwn()) {
    Compute(kernel);
    Strands strands;
    Resume(strands);
    RunAll(strands, false);
    return absl::OkStatus();
  }
  MP_RETURN_IF_ERROR(CheckRoom());
  Work work;
  work.owned = std::make_unique<Kernel>(std::move(kernel));
  work.kernel = work.owned.get();
  if (Push(std::move(work))) SubmitOwned();
  return absl::OkStatus();
}

absl::Status HostStream::DoCopy(const TensorView& source, const TensorView& target) {
  return DoLaunch(NewCopy(source, target));
}

absl::Status HostStream::DoScale(const TensorView& source, const TensorView& target,
                                 double factor) {
  return DoLaunch(NewScale(source, target, factor));
}

Kernel HostStream::NewCopy(const TensorView& source, const TensorView& target) {
  return CopyKernel{source, target};
}

Kernel HostStream::NewScale(const TensorView& source, const TensorView& target, double factor) {
  return ScaleKernel{source, target, factor};
}

absl::Status HostStream::DoWait(const Event& event) {
  if (event.Done()) return absl::OkStatus();
  auto* other = dynamic_cast<HostStream*>(event.stream);
  if (other == nullptr) return InvalidArgument("a host stream cannot wait for another backend's");
  MP_RETURN_IF_ERROR(CheckRoom());
  if (PushWait(event)) SubmitOwned();
  return absl::OkStatus();
}

// --- running ---------------------------------------------------------------------------------

void HostStream::Compute(const Kernel& kernel) {
  track() == nullptr ? RunKernel(kernel) : RecordKernel(kernel);
}

void HostStream::RecordKernel(const Kernel& kernel) {
  Span span;
  span.name = kernel.name();
  span.begin = span.ready = track()->Now();
  RunKernel(kernel);
  span.end = track()->Now();
  track()->Add(span);
}

void HostStream::RunKernel(const Kernel& kernel) {
  Failure failure;
  const Callback callback;
  try {
    const absl::Status status = kernel.RunOnHost();
    if (status.ok()) return;
    failure = Failure{KindOf(status) == ErrorKind::kNone ? ErrorKind::kDeviceError : KindOf(status),
                      std::string(status.message())};
  } catch (const std::exception& error) {
    failure = Failure{ErrorKind::kUserException,
                      absl::StrCat("a kernel on ", name(), " threw: ", error.what())};
  } catch (...) {
    failure =
        Failure{ErrorKind::kUserException,
                absl::StrCat("a kernel on ", name(), " threw something that is no exception")};
  }
  Report(failure);
}

bool HostStream::Finish(Strands* strands) {
  const uint64_t state = state_.fetch_sub(1, sync::kSeqCst) - 1;
  const uint64_t next = next_awaited_.load(sync::kSeqCst);
  if (next != kNoPosition && Passed(state, next)) ResumeWaiters(strands);
  finished_.fetch_add(1, sync::kRelease);
  return Pending(state) > 0;
}

void HostStream::Resume(Strands& strands) {
  if (!Finish(&strands)) return;
  if (executor_.steps_singly()) {
    SubmitOwned();
  } else {
    strands.Push(*this);
  }
}

void HostStream::ResumeElsewhere() {
  if (Finish(nullptr)) SubmitOwned();
}

void HostStream::RunAll(Strands& strands, bool may_compute) {
  while (HostStream* stream = strands.Pop()) stream->RunOwned(strands, may_compute);
}

void HostStream::Run() {
  Strands strands;
  RunOwned(strands, true);
  RunAll(strands, true);
}

void HostStream::RunOwned(Strands& strands, bool may_compute) {
  if (std::exchange(ends_its_wait_, false)) {
    SetAwaited(Event());
    if (!Finish(&strands)) return;
  }
  while (true) {
    Work work;
    {
      sync::MutexLock lock(mutex_);
      if (queue_.front().kind == Work::Kind::kCompute && !may_compute) break;
      work = queue_.Pop();
      queued_waits_ -= work.kind == Work::Kind::kWait ? 1 : 0;
    }
    // The strands that a meeting has let go of together compute side by side.
    while (work.kind == Work::Kind::kCompute && executor_.has_threads()) {
      HostStream* other = strands.Pop();
      if (other == nullptr) break;
      other->SubmitOwned();
    }
    if (!RunOne(std::move(work), strands)) return;
    if (!Finish(&strands)) return;
    if (executor_.steps_singly()) break;
  }
  SubmitOwned();
}

bool HostStream::RunOne(Work work, Strands& strands) {
  switch (work.kind) {
    case Work::Kind::kCompute:
      Compute(*work.kernel);
      return true;
    case Work::Kind::kWait:
      SetAwaited(work.event);
      if (static_cast<HostStream*>(work.event.stream)->AddWaiter(work.event.position, this)) {
        return false;
      }
      SetAwaited(Event());
      return true;
    case Work::Kind::kPlace:
      work.operation->Reach(work.peer, strands);
      return false;
    case Work::Kind::kEnd:
      work.operation->EndList(work.peer, *this, strands);
      return true;
  }
  return true;
}

void HostStream::SetAwaited(const Event& event) {
  sync::MutexLock lock(mutex_);
  awaited_ = event;
}

// What is queued bears the last numbers that were given, and the work that is on the one before.
void HostStream::DoAppendAwaited(uint64_t position, std::vector<Event>& events) {
  sync::MutexLock lock(mutex_);
  const uint64_t first = Submitted(state_.load(sync::kAcquire)) - queue_.size();
  const auto append = [&](const Event& event, uint64_t at) {
    if (Ahead(position, at) >= 0 && !event.Done()) events.push_back(event);
  };
  append(awaited_, first);
  size_t waits = queued_waits_;
  for (size_t i = 0; waits > 0; ++i) {
    if (queue_[i].kind != Work::Kind::kWait) continue;
    append(queue_[i].event, first + 1 + i);
    --waits;
  }
}

bool HostStream::AddWaiter(uint64_t position, HostStream* stream) {
  sync::MutexLock lock(mutex_);
  waiters_.push_back(Waiter{position, stream});
  SetNextAwaited();
  if (!DoQuery(position)) return true;
  waiters_.pop_back();
  SetNextAwaited();
  return false;
}

void HostStream::RemoveSleeper(uint64_t position) {
  sync::MutexLock lock(mutex_);
  const auto is_it = [position](const Waiter& waiter) {
    return waiter.stream == nullptr && waiter.position == position;
  };
  const auto sleeper = std::find_if(waiters_.begin(), waiters_.end(), is_it);
  if (sleeper == waiters_.end()) return;
  waiters_.erase(sleeper);
  SetNextAwaited();
}

void HostStream::SetNextAwaited() {
  uint64_t next = kNoPosition;
  for (const Waiter& waiter : waiters_) {
    if (next == kNoPosition || Ahead(next, waiter.position) > 0) next = waiter.position;
  }
  next_awaited_.store(next, sync::kSeqCst);
}

void HostStream::ResumeWaiters(Strands* strands) {
  Strands ready;
  bool wakes = false;
  {
    sync::MutexLock lock(mutex_);
    const uint64_t state = state_.load(sync::kSeqCst);
    const auto resumes = [&](const Waiter& waiter) {
      if (!Passed(state, waiter.position)) return false;
      if (waiter.stream != nullptr) {
        ready.Push(*waiter.stream);
      } else {
        wakes = true;
      }
      return true;
    };
    waiters_.erase(std::remove_if(waiters_.begin(), waiters_.end(), resumes), waiters_.end());
    SetNextAwaited();
  }
  if (wakes) signal().Raise();
  while (HostStream* stream = ready.Pop()) {
    stream->ends_its_wait_ = true;
    if (strands != nullptr) {
      strands->Push(*stream);
    } else {
      stream->SubmitOwned();
    }
  }
}

// --- waiting ---------------------------------------------------------------------------------

bool HostStream::DoQuery(uint64_t position) const {
  return Passed(state_.load(sync::kSeqCst), position);
}

// A thread that waits for a limited time leaves the work to the pool, where there is one: a
// piece of it could take longer than that.
absl::StatusOr<bool> HostStream::DoBlock(uint64_t position, absl::Duration timeout) {
  const bool helps = !executor_.has_threads() || timeout == absl::InfiniteDuration();
  if (timeout == absl::ZeroDuration()) {
    if (helps) HelpOnce();
    if (!DoQuery(position) && watch() != nullptr) watch()->OnStall(*this, timeout);
    return DoQuery(position);
  }
  if (SpinUntil(position, helps)) return true;
  const absl::Duration start = clock_.Now();
  while (true) {
    const uint32_t seen = signal().Prepare();
    if (DoQuery(position)) {
      signal().Cancel();
      return true;
    }
    if (helps && HelpOnce()) {
      signal().Cancel();
      continue;
    }
    const absl::Duration waited = clock_.Now() - start;
    if (waited >= timeout) {
      signal().Cancel();
      return DoQuery(position);
    }
    absl::Duration sleep = timeout - waited;
    if (watch() != nullptr) sleep = std::min(sleep, watch()->OnStall(*this, waited));
    if (sleep <= absl::ZeroDuration() || DoQuery(position)) {
      signal().Cancel();
      continue;
    }
    SleepUntil(position, seen, sleep);
  }
}

void HostStream::SleepUntil(uint64_t position, uint32_t seen, absl::Duration timeout) {
  if (!AddWaiter(position, nullptr)) return signal().Cancel();
  signal().Sleep(clock_, seen, timeout);
  RemoveSleeper(position);
}

bool HostStream::HelpOnce() {
  AwakeWait awake(executor_);
  return executor_.HelpOnce();
}

// Looks for a while before the thread sleeps.
bool HostStream::SpinUntil(uint64_t position, bool helps) {
  Patience patience;
  std::optional<AwakeWait> awake;
  if (helps) awake.emplace(executor_);
  do {
    if (DoQuery(position)) return true;
    if (helps && executor_.HelpOnce()) patience.Reset();
  } while (patience.Spin(executor_));
  return false;
}

}  // namespace mp::host
