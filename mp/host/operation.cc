#include "mp/host/operation.h"

#include <algorithm>

#include "mp/host/carry_out.h"
#include "mp/host/graph.h"
#include "mp/host/kernels/fp_mode.h"

namespace mp::host {
namespace {

// An operation of fewer bytes is done by the thread that completes it; a hand-over costs more
// than another core could save.  The larger bound holds while no thread is awake to help.
constexpr int64_t kAloneBytes = 64 << 10;
constexpr int64_t kAloneBytesAsleep = 512 << 10;
// Bytes read and written by one piece: half of a second-level cache, so that what one input brings
// in is still there when it is stored.
constexpr int64_t kPieceBytes = 256 << 10;

}  // namespace

HostOperation::HostOperation(Executor& executor, Retirer& retirer, int ranks)
    : executor_(executor),
      retirer_(retirer),
      places_(std::make_unique<Place[]>(static_cast<size_t>(ranks))),
      came_(std::make_unique<absl::Duration[]>(static_cast<size_t>(ranks))),
      missing_(ranks + 1) {
  world_size = ranks;
  streams.resize(static_cast<size_t>(ranks));
}

bool HostOperation::Enter(int peer) {
  place(peer).entered = true;
  if (executor_.runs_at_once() && stream(peer).TryOwn()) return true;
  if (stream(peer).PushPlace(*this, peer)) stream(peer).SubmitOwned();
  return false;
}

void HostOperation::Arrive(int peer) {
  Strands strands;
  Reach(peer, strands);
  HostStream::RunAll(strands, false);
}

void HostOperation::ArriveAll() {
  for (int peer = 0; traced_region != nullptr && peer < world_size; ++peer) NoteThatCame(peer);
  Strands strands;
  Execute(strands);
  HostStream::RunAll(strands, false);
}

void HostOperation::Reach(int peer, Strands& strands) {
  if (traced_region != nullptr) NoteThatCame(peer);
  if (place(peer).presence.exchange(Presence::kWaits, sync::kAcqRel) == Presence::kLetGo) {
    if (traced_region != nullptr) RecordDropped(peer);
    stream(peer).Resume(strands);
    PassDropped();
    return;
  }
  if (missing_.fetch_sub(1, sync::kAcqRel) == 1) Execute(strands);
}

void HostOperation::Issue() {
  // The caller holds the Order lock: where this is the last to come, another thread does the work.
  if (missing_.fetch_sub(1, sync::kAcqRel) == 1) executor_.Submit(*this);
}

void HostOperation::Drop() {
  int entered = 0;
  for (int peer = 0; peer < world_size; ++peer) entered += place(peer).entered;
  to_pass_.store(entered + 1, sync::kRelaxed);
  int waiting = 0;
  for (int peer = 0; peer < world_size; ++peer) {
    if (!place(peer).entered) continue;
    if (place(peer).presence.exchange(Presence::kLetGo, sync::kAcqRel) == Presence::kWaits) {
      ++waiting;
      if (traced_region != nullptr) RecordDropped(peer);
      stream(peer).ResumeElsewhere();
      PassDropped();
    }
  }
  // Each of those that wait has counted itself, or is just about to: then it looks here once more.
  while (missing_.load(sync::kAcquire) != world_size + 1 - waiting) sync::Yield();
  PassDropped();
}

void HostOperation::PassDropped() {
  if (to_pass_.fetch_sub(1, sync::kAcqRel) == 1) retirer_.Retire(*this);
}

int64_t HostOperation::TotalBytes() const {
  int64_t bytes = 0;
  for (int step = 0; step < step_count(); ++step) {
    bytes += BytesOf(steps[static_cast<size_t>(step)], step_parts(step));
  }
  return bytes;
}

void HostOperation::Execute(Strands& strands) {
  if (traced_region != nullptr) NoteThatAllCame();
  if (graph != nullptr) return StartGraph(strands);
  const int64_t bytes = TotalBytes();
  pieces_ = std::max<int64_t>(1, bytes / kPieceBytes);
  if (bytes >= kAloneBytesAsleep || executor_.steps_singly()) {
    executor_.Share(*this, pieces_);
    return;
  }
  if (bytes >= kAloneBytes && executor_.somebody_waits_awake()) {
    pieces_ = std::max<int64_t>(pieces_, executor_.lanes());
    if (!executor_.ShareAndHelp(*this, pieces_)) return;
  } else {
    pieces_ = 1;
    if (bytes > 0) RunPiece(0);
  }
  Complete(strands);
}

void HostOperation::RunPiece(int64_t piece) {
  ScopedStandardFpMode standard;
  for (int step = 0; step < step_count(); ++step) {
    CarryOut(steps[static_cast<size_t>(step)], step_parts(step), piece, pieces_);
  }
}

void HostOperation::Finish() {
  Strands strands;
  Complete(strands);
  HostStream::RunAll(strands, true);
}

void HostOperation::Run() {
  Strands strands;
  Execute(strands);
  HostStream::RunAll(strands, true);
}

void HostOperation::Complete(Strands& strands) {
  if (traced_region != nullptr) Record();  // while all strands are left here
  Reset();
  retirer_.Ran(*this);
  for (int peer = 0; peer < world_size; ++peer) stream(peer).Resume(strands);
  retirer_.Retire(*this);
}

// As good as new, while all strands are left here.
void HostOperation::Reset() {
  missing_.store(world_size + 1, sync::kRelaxed);
  for (int peer = 0; peer < world_size; ++peer) {
    place(peer).presence.store(Presence::kComing, sync::kRelaxed);
    place(peer).entered = false;
  }
}

// --- graphs --------------------------------------------------------------------------------------

bool HostOperation::Queue(int peer) {
  place(peer).entered = true;
  return stream(peer).PushPlace(*this, peer);
}

void HostOperation::StartGraph(Strands& strands) {
  if (traced_region != nullptr) Record();
  Reset();
  lists_.store(world_size, sync::kRelaxed);
  static_cast<HostGraph&>(*graph->compiled).Start(*this, strands);  // made by Compile
}

void HostOperation::EndList(int peer, HostStream& lane, Strands& strands) {
  HostStream& own = stream(peer);
  lane.PassErrorTo(own);
  // Before the strand goes on: whoever then lets go of the graph shall find that it is over.
  if (lists_.fetch_sub(1, sync::kAcqRel) == 1) {
    retirer_.Ran(*this);
    retirer_.Retire(*this);
  }
  own.Resume(strands);
}

// --- the trace ---------------------------------------------------------------------------------

void HostOperation::NoteThatCame(int peer) { came_[static_cast<size_t>(peer)] = TimeOn(peer); }

void HostOperation::NoteThatAllCame() { ready_ = TimeOn(0); }

void HostOperation::Record() {
  const absl::Duration end = TimeOn(0);
  for (int peer = 0; peer < world_size; ++peer) {
    Span span = SpanOf(peer);
    span.begin = came_[static_cast<size_t>(peer)];
    span.ready = ready_;
    span.end = end;
    stream(peer).track()->Add(span);
  }
}

// Where ranks disagree its kind is that of the first post.  The parts may be half written.
void HostOperation::RecordDropped(int peer) {
  Span span = Outline();
  span.dropped = true;
  span.begin = came_[static_cast<size_t>(peer)];
  span.ready = span.end = TimeOn(peer);
  stream(peer).track()->Add(span);
}

}  // namespace mp::host
