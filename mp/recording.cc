#include "mp/recording.h"

#include "absl/strings/str_cat.h"
#include "mp/base/status.h"

namespace mp {
namespace {

sync::Atomic<uint64_t> next_id{1};

}  // namespace

Recording::Recording(const Group& group, const Stream& compute, std::string rank)
    : id_(next_id.fetch_add(1, sync::kRelaxed)),
      group_(group),
      compute_(compute),
      rank_(std::move(rank)) {}

absl::Status Recording::Refuse(const absl::Status& status) {
  if (status_.ok()) status_ = status;
  return status_;
}

absl::Status Recording::Add(RecordedItem item) {
  if (status_.ok()) items_.push_back(std::move(item));
  return status_;
}

absl::Status Recording::AddOperation(absl::Span<const Descriptor> steps,
                                     absl::Span<const Part> parts, bool overlaps) {
  RecordedItem item;
  item.kind = RecordedItem::Kind::kOperation;
  item.steps.assign(steps.begin(), steps.end());
  item.parts.assign(parts.begin(), parts.end());
  item.overlaps = overlaps;
  item.operation = operations_;
  MP_RETURN_IF_ERROR(Add(std::move(item)));
  ++operations_;
  if (overlaps) overlapped_ = operations_;
  return absl::OkStatus();
}

Event Recording::MarkOf(Stream& stream, bool overlaps) const {
  return Event{&stream, overlaps ? operations_ : 0, id_};
}

absl::Status Recording::Join(const Event& event) {
  if (event.stream == nullptr) return status_;
  if (event.recording == 0 && event.stream == &compute_) return status_;  // launches come later
  if (event.recording != id_) {
    return Refuse(UsageError("a capture on ", rank_, " waits for what is not recorded in it, on ",
                             event.stream->name()));
  }
  if (event.position == 0) return status_;  // the compute stream's own
  RecordedItem item;
  item.kind = RecordedItem::Kind::kJoin;
  item.operation = event.position - 1;
  MP_RETURN_IF_ERROR(Add(std::move(item)));
  if (joined_ < event.position) joined_ = event.position;
  return absl::OkStatus();
}

absl::Status Recording::CheckJoined() const {
  if (joined_ >= overlapped_) return absl::OkStatus();
  return UsageError("a capture on ", rank_, " ended, and nothing waits for its operation ",
                    overlapped_ - 1, ", which overlaps: call Work::Wait with the compute stream");
}

}  // namespace mp
