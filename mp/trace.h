// What ran on the streams of Worlds, and when.
//
//   auto trace = std::make_shared<mp::Trace>();
//   MP_ASSIGN_OR_RETURN(auto world, mp::World::Create(backend, {.trace = trace}));
//   MP_RETURN_IF_ERROR(world->Run(...));
//   absl::Duration compute = trace->TotalsOf(rank).compute;
//   MP_RETURN_IF_ERROR(mp::WriteChromeTrace(*trace, "trace.json"));  // mp/chrome_trace.h
//
// Every stream of a traced World has a Track.  What it runs leaves a Span there when it ends: a
// kernel (mp's own are "Copy" and "Scale"), or the rank's part of an operation.  The Spans of a
// Track follow each other and never overlap.  A wait for an Event leaves none; a Region of one rank
// leaves those of its copies only.
//
// Threads.   Any, at any time.  Told is what had ended by then; once a stream is synchronized, that
//            is all that was queued there before.
// Ownership. A World holds its Trace.  Worlds, Tracks and names live as long as the Trace.
// Memory.    Some 100 bytes a Span where Spans are kept, and 300 for each stream ever made.
#ifndef MP_TRACE_H_
#define MP_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "mp/base/sync.h"

namespace mp {

enum class SpanKind : uint8_t {
  kCompute,  // a kernel, a copy, a scaling
  kAllReduce,
  kGather,
  kAllGather,
  kAcquireSlot,
  kGraph,  // a capture, or a launch: until all ranks had come; what it runs has Spans of its own
  kBatch,  // of steps of several kinds, or of none; a batch of one kind is of that kind
};
inline constexpr size_t kSpanKinds = 7;

// One piece of work of one stream.  Times are those of the Backend's clock.
struct Span {
  SpanKind kind = SpanKind::kCompute;
  // The ranks did not agree, or one did not come: nothing was done.  Every rank that had posted the
  // operation has such a Span, from when its stream came to it, if it had, to when it was let go.
  bool dropped = false;
  absl::string_view name;  // "AllReduce"; for compute, the kernel's
  absl::Duration begin;    // when the stream came to it
  absl::Duration ready;  // operations: when all ranks had come and agreed; else `begin`.  Where it
                         // was dropped, `end`
  absl::Duration end;    // when the stream went on
  // Operations only.
  const std::string* region = nullptr;  // the name of its Region; one object for each Region
  uint64_t sequence = 0;                // its number in the Region
  int steps = 1;                        // of a batch, any number
  int64_t bytes = 0;                    // of this rank's inputs
};

// The lengths of Spans, added up.  What streams of one rank do side by side counts for each.
struct TraceTotals {
  absl::Duration compute;
  absl::Duration all_reduce;  // waiting for the other ranks included, and so below
  absl::Duration gather;      // Gather and AllGather
  absl::Duration other;       // AcquireSlot, kGraph and kBatch

  TraceTotals& operator+=(const TraceTotals& more);
};

// What one stream ran.
class Track {
 public:
  Track(sync::Clock& clock, bool keep_spans, int rank, absl::string_view name)
      : clock_(clock), keep_spans_(keep_spans), rank_(rank), name_(name) {}
  ~Track();
  Track(const Track&) = delete;
  Track& operator=(const Track&) = delete;

  int rank() const { return rank_; }
  // "compute stream".
  const std::string& name() const { return name_; }
  // In order; none where Spans are not kept.
  std::vector<Span> spans() const;
  TraceTotals totals() const;

  // For mp's own use, by whoever runs the stream's work ----------------------------------------
  absl::Duration Now() { return clock_.Now(); }
  void Add(const Span& span);

 private:
  static constexpr size_t kChunkSpans = 256;
  struct Chunk {
    std::array<Span, kChunkSpans> spans;
    std::unique_ptr<Chunk> next;
  };

  sync::Clock& clock_;  // of the Backend; asked while it lives
  const bool keep_spans_;
  const int rank_;
  const std::string name_;
  // One thread at a time adds; what it has written is told to readers by count_.
  std::unique_ptr<Chunk> first_;
  Chunk* last_ = nullptr;
  sync::Atomic<size_t> count_{0};
  std::array<sync::Atomic<int64_t>, kSpanKinds> nanoseconds_{};  // by kind
};

// What the streams of one World ran.
class WorldTrace {
 public:
  WorldTrace(std::string name, sync::Clock& clock, bool keep_spans)
      : name_(std::move(name)), clock_(clock), keep_spans_(keep_spans), start_(clock.Now()) {}

  const std::string& name() const { return name_; }
  // When it was created.
  absl::Duration start() const { return start_; }
  // In the order in which they were made.
  std::vector<const Track*> tracks() const;
  // Over all streams of the rank.
  TraceTotals TotalsOf(int rank) const;

  // For mp's own use ---------------------------------------------------------------------------
  Track& NewTrack(int rank, absl::string_view name);
  const std::string* NewRegion(absl::string_view name);

 private:
  const std::string name_;
  sync::Clock& clock_;
  const bool keep_spans_;
  const absl::Duration start_;
  mutable sync::Mutex mutex_;
  std::vector<std::unique_ptr<Track>> tracks_;  // guarded by mutex_
  std::deque<std::string> regions_;             // guarded by mutex_; each constant
};

struct TraceOptions {
  // Without, there are totals only, and memory does not grow with the work.
  bool keep_spans = true;
};

class Trace {
 public:
  explicit Trace(const TraceOptions& options = {}) : options_(options) {}
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // The Worlds that were created with it, in that order; one that failed to start, too.
  std::vector<const WorldTrace*> worlds() const;
  // Over these Worlds: of all ranks with this number.
  TraceTotals TotalsOf(int rank) const;

  // For mp's own use ---------------------------------------------------------------------------
  // Without a name it is "World 1" and so on.
  WorldTrace& NewWorld(absl::string_view name, sync::Clock& clock);

 private:
  const TraceOptions options_;
  mutable sync::Mutex mutex_;
  std::vector<std::unique_ptr<WorldTrace>> worlds_;  // guarded by mutex_
};

}  // namespace mp

#endif  // MP_TRACE_H_
