// Captures and launches of graphs.
#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mp/base/check.h"
#include "mp/callback.h"
#include "mp/graph_handle.h"
#include "mp/group.h"

namespace mp {
namespace {

// A Status of the caller's own (see Failure).
absl::Status CopyOf(const absl::Status& status) {
  const ErrorKind kind = KindOf(status);
  if (status.ok() || kind != ErrorKind::kNone) {
    return status.ok() ? absl::OkStatus() : MakeError(kind, status.message());
  }
  return absl::Status(status.code(), status.message());
}

absl::Status RunBody(const CaptureBody& body, int peer, absl::string_view rank) {
  try {
    return body(peer);
  } catch (const std::exception& error) {
    return MakeError(ErrorKind::kUserException,
                     absl::StrCat(rank, " has thrown inside a capture: ", error.what()));
  } catch (...) {
    return MakeError(
        ErrorKind::kUserException,
        absl::StrCat(rank, " has thrown something that is no exception inside a capture"));
  }
}

}  // namespace

// --- recording -----------------------------------------------------------------------------------

Recording* Group::RecordingOf(int peer) const { return member(peer).stream->recording(); }

absl::Status Group::CheckNotRecording() const {
  for (int peer = 0; peer < size(); ++peer) {
    Recording* const recording = RecordingOf(peer);
    if (recording == nullptr) continue;
    return recording->Refuse(UsageError(
        "Region \"", name(), "\": inside a capture of rank ", member(peer).id,
        " only that rank's own door to the captured Region can be used, for operations"));
  }
  return absl::OkStatus();
}

absl::Status Group::PostRecorded(int peer, absl::Span<const Descriptor> steps,
                                 absl::Span<const Part> parts, Lane lane, Work* work) {
  Recording& recording = *RecordingOf(peer);
  if (&recording.group() != this) {
    return recording.Refuse(UsageError("Region \"", name(), "\": an operation inside rank ",
                                       member(peer).id, "'s capture on Region \"",
                                       recording.group().name(), "\""));
  }
  const bool overlaps = lane == Lane::kComm;
  for (size_t i = 0; size() == 1 && i < steps.size(); ++i) {
    const absl::Status status = CheckAlone(Plan{steps[i], parts[i]});
    if (!status.ok()) return recording.Refuse(status);
  }
  MP_RETURN_IF_ERROR(recording.AddOperation(steps, parts, overlaps));
  if (work != nullptr) *work = Work(nullptr, 0, recording.MarkOf(LaneStream(peer, lane), overlaps));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Recording>> Group::Record(int peer, const CaptureBody& body) {
  MP_RETURN_IF_ERROR(CheckNotRecording());
  const std::string rank = absl::StrCat("rank ", member(peer).id);
  auto recording = std::make_shared<Recording>(*this, *member(peer).stream, rank);
  if (!member(peer).stream->BeginRecording(*recording)) {
    return UsageError("Region \"", name(), "\": another thread captures what ", rank, " does");
  }
  // So that a wait for what stands there is told from one for what is queued.
  const bool both = comm_stream(peer).BeginRecording(*recording);
  const absl::Status status = RunBody(body, peer, rank);
  if (both) comm_stream(peer).EndRecording();
  member(peer).stream->EndRecording();
  // What a call was refused for comes first: the body may pass it on, changed or not.
  if (recording->Refuse(status).ok())
    static_cast<void>(recording->Refuse(recording->CheckJoined()));
  const auto overlaps = [](const RecordedItem& item) { return item.overlaps; };
  if (traced_name_ != nullptr &&
      std::any_of(recording->items().begin(), recording->items().end(), overlaps)) {
    recording->overlap_track =
        &member(peer).trace->NewTrack(member(peer).id, "overlapped operations of a graph");
  }
  return recording;
}

// --- capture -------------------------------------------------------------------------------------

absl::StatusOr<Graph> Group::Capture(int peer, const CaptureBody& body) {
  MP_RETURN_IF_ERROR(order_.maker.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("Capture"));
  if (failed_.load(sync::kAcquire)) return status();
  MP_RETURN_IF_ERROR(CheckDriver(peer));
  ReapGraphs();
  GraphPart part;
  MP_ASSIGN_OR_RETURN(std::shared_ptr<Recording> recording, Record(peer, body));
  part.recordings.push_back(recording);
  if (size() == 1) return ConcludeAlone(recording, peer);
  Descriptor capture;
  capture.kind = OpKind::kCapture;
  const Part nothing;
  const absl::Status posted = Post(peer, absl::MakeConstSpan(&capture, 1),
                                   absl::MakeConstSpan(&nothing, 1), Lane::kCompute, nullptr, part);
  if (!posted.ok()) return recording->status().ok() ? posted : recording->status();
  return Concluded(*recording, peer);
}

absl::StatusOr<Graph> Group::CaptureAll(const CaptureBody& body) {
  MP_RETURN_IF_ERROR(order_.maker.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("Capture"));
  {
    sync::MutexLock lock(order_.mutex);
    MP_RETURN_IF_ERROR(CheckPostAll(Lane::kCompute));
  }
  ReapGraphs();
  GraphPart part;
  for (int peer = 0; peer < size(); ++peer) {
    MP_ASSIGN_OR_RETURN(std::shared_ptr<Recording> recording, Record(peer, body));
    MP_RETURN_IF_ERROR(recording->status());  // nobody waits for it
    part.recordings.push_back(std::move(recording));
  }
  if (size() == 1) return ConcludeAlone(part.recordings[0], -1);
  Descriptor capture;
  capture.kind = OpKind::kCapture;
  const std::vector<Part> nothing(members_.size());
  MP_RETURN_IF_ERROR(PostAll(capture, nothing, {}, Lane::kCompute, nullptr, part));
  return Concluded(*part.recordings[0], -1);
}

absl::StatusOr<Graph> Group::ConcludeAlone(const std::shared_ptr<Recording>& recording, int peer) {
  {
    sync::MutexLock lock(order_.mutex);
    Conclude({recording}, true);
  }
  return Concluded(*recording, peer);
}

// All ranks have posted what they recorded, and it agrees.  As Communicator::Issue as to the lock.
void Group::Conclude(std::vector<std::shared_ptr<Recording>> recordings, bool locked) {
  const auto failed = std::find_if(recordings.begin(), recordings.end(),
                                   [](const auto& it) { return !it->status().ok(); });
  auto graph = std::make_unique<RecordedGraph>();
  absl::Status status = failed == recordings.end() ? absl::OkStatus() : (*failed)->status();
  if (status.ok()) {
    for (int peer = 0; peer < size(); ++peer) {
      graph->recordings.push_back(recordings[static_cast<size_t>(peer)]);
      graph->streams.push_back(member(peer).stream.get());
    }
    graph->traced_region = traced_name_;
    if (communicator_ != nullptr) {
      absl::StatusOr<std::unique_ptr<CompiledGraph>> compiled = communicator_->Compile(*graph);
      if (compiled.ok()) {
        graph->compiled = *std::move(compiled);
      } else {
        const std::string text =
            absl::StrCat("Region \"", name(), "\": a capture: ", compiled.status().message());
        const ErrorKind kind = KindOf(compiled.status());
        status = kind == ErrorKind::kNone ? absl::Status(compiled.status().code(), text)
                                          : MakeError(kind, text);
      }
    }
  }
  RecordedGraph* const made = status.ok() ? graph.get() : nullptr;
  if (made != nullptr) {
    if (!locked) order_.mutex.Lock();
    graph->id = ++last_graph_;
    graph->handles = size();
    graphs_.push_back(std::move(graph));
    if (!locked) order_.mutex.Unlock();
  }
  for (const auto& recording : recordings) {
    recording->graph = made;
    recording->told = CopyOf(status);
    recording->concluded.store(true, sync::kRelease);
  }
}

// The capture has been agreed on: hands the rank, or the caller for all, its graph.
absl::StatusOr<Graph> Group::Concluded(const Recording& recording, int peer) {
  // A Group that has failed since wakes the rank before the graph is ready.
  while (!recording.concluded.load(sync::kAcquire)) {
    order_.IssueTicketed();
    sync::Yield();
  }
  MP_RETURN_IF_ERROR(recording.told);
  if (peer < 0) {
    sync::MutexLock lock(order_.mutex);
    recording.graph->handles = 1;
  }
  return Graph(std::make_shared<GraphHandle>(shared_from_this(), *recording.graph), peer);
}

// --- launch --------------------------------------------------------------------------------------

absl::Status Group::Launch(int peer, RecordedGraph& graph) {
  MP_RETURN_IF_ERROR(order_.maker.Check());
  MP_RETURN_IF_ERROR(Callback::CheckMayWait("Graph::Launch"));
  MP_RETURN_IF_ERROR(CheckNotRecording());
  const bool all = peer < 0;
  if (size() == 1) {
    if (all) {
      sync::MutexLock lock(order_.mutex);
      MP_RETURN_IF_ERROR(CheckPostAll(Lane::kCompute));
    } else {
      MP_RETURN_IF_ERROR(CheckDriver(peer));
    }
    return ReplayAlone(*graph.recordings[0]);
  }
  Descriptor launch;
  launch.kind = OpKind::kGraph;
  launch.graph = graph.id;
  GraphPart part;
  part.graph = &graph;
  if (!all) {
    const Part nothing;
    return Post(peer, absl::MakeConstSpan(&launch, 1), absl::MakeConstSpan(&nothing, 1),
                Lane::kCompute, nullptr, part);
  }
  const std::vector<Part> nothing(members_.size());
  return PostAll(launch, nothing, {}, Lane::kCompute, nullptr, part);
}

// A Region of one rank has no operations: what was recorded is called again.
absl::Status Group::ReplayAlone(const Recording& recording) {
  if (failed_.load(sync::kAcquire)) return status();
  Stream& stream = *member(0).stream;
  std::vector<Work> works(recording.operation_count());
  for (const RecordedItem& item : recording.items()) {
    switch (item.kind) {
      case RecordedItem::Kind::kKernel:
        MP_RETURN_IF_ERROR(stream.Launch(*item.kernel));
        break;
      case RecordedItem::Kind::kCopy:
        MP_RETURN_IF_ERROR(stream.Copy(item.source, item.target));
        break;
      case RecordedItem::Kind::kScale:
        MP_RETURN_IF_ERROR(stream.Scale(item.source, item.target, item.factor));
        break;
      case RecordedItem::Kind::kOperation:
        for (size_t i = 0; i < item.steps.size(); ++i) {
          MP_RETURN_IF_ERROR(PostAlone(Plan{item.steps[i], item.parts[i]},
                                       item.overlaps ? Lane::kComm : Lane::kCompute,
                                       &works[item.operation]));
        }
        break;
      case RecordedItem::Kind::kJoin:
        MP_RETURN_IF_ERROR(works[item.operation].Wait(stream));
        break;
    }
  }
  return absl::OkStatus();
}

// --- the graphs' lives ---------------------------------------------------------------------------

void Group::LetGo(RecordedGraph& graph) {
  if (!order_.maker.is_this()) return;
  {
    sync::MutexLock lock(order_.mutex);
    if (--graph.handles > 0) return;
  }
  ReapGraphs();
}

// Graphs that nobody can launch and of which no launch is under way.
void Group::ReapGraphs() {
  std::vector<std::unique_ptr<RecordedGraph>>
      gone;  // what they hold is the user's: without the lock
  {
    sync::MutexLock lock(order_.mutex);
    const auto first = std::stable_partition(graphs_.begin(), graphs_.end(), [](const auto& graph) {
      return graph->handles > 0 || graph->launches.load(sync::kAcquire) != 0 ||
             (graph->compiled != nullptr && !graph->compiled->idle());
    });
    gone.assign(std::make_move_iterator(first), std::make_move_iterator(graphs_.end()));
    graphs_.erase(first, graphs_.end());
  }
}

int Group::live_graphs() const {
  sync::MutexLock lock(order_.mutex);
  return static_cast<int>(std::count_if(graphs_.begin(), graphs_.end(),
                                        [](const auto& graph) { return graph->handles > 0; }));
}

void Group::ReleaseCompiled() {
  std::vector<std::unique_ptr<CompiledGraph>> gone;
  sync::MutexLock lock(order_.mutex);
  for (const auto& graph : graphs_) {
    if (graph->launches.load(sync::kAcquire) == 0) gone.push_back(std::move(graph->compiled));
  }
}

}  // namespace mp
