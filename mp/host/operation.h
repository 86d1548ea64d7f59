// An operation on the host: a meeting of n strands.  Each strand that comes to its place is left
// there; the last one to come, once all ranks have agreed, does the work or shares it out, and then
// all strands go on.
#ifndef MP_HOST_OPERATION_H_
#define MP_HOST_OPERATION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "mp/base/sync.h"
#include "mp/communicator.h"
#include "mp/host/executor.h"
#include "mp/host/stream.h"
#include "mp/operation.h"
#include "mp/trace.h"

namespace mp::host {

class HostOperation final : public Operation, private Job, private Runnable {
 public:
  HostOperation(Executor& executor, Retirer& retirer, int ranks);

  // Communicator's calls, see there.
  bool Enter(int peer);
  void Issue();
  void Arrive(int peer);
  void ArriveAll();
  void Drop();

  // For a graph's own operations: the place of `peer`, behind what its lane holds; true where the
  // caller now owns the strand.
  bool Queue(int peer);
  // For a launch: what `peer` has recorded has run, in `lane`.  Its own strand goes on.
  void EndList(int peer, HostStream& lane, Strands& strands);

  // The strand of `peer` has come to its place; the caller owns the strand and leaves it here.
  void Reach(int peer, Strands& strands);

 private:
  // Where a rank's strand is.
  enum class Presence : uint8_t { kComing, kWaits, kLetGo };
  struct Place {
    sync::Atomic<Presence> presence{Presence::kComing};
    bool entered = false;  // guarded by the Order
  };

  HostStream& stream(int peer) const {
    return *static_cast<HostStream*>(streams[static_cast<size_t>(peer)]);
  }
  Place& place(int peer) { return places_[static_cast<size_t>(peer)]; }

  // What the trace gets, where there is one; out of the way of operations that have none.
  [[gnu::cold]] void NoteThatCame(int peer);
  [[gnu::cold]] void NoteThatAllCame();
  [[gnu::cold]] void Record();
  [[gnu::cold]] void RecordDropped(int peer);
  absl::Duration TimeOn(int peer) const { return stream(peer).track()->Now(); }

  void Execute(Strands& strands);
  void Complete(Strands& strands);
  void StartGraph(Strands& strands);
  void Reset();
  void PassDropped();
  void RunPiece(int64_t piece) override;
  void Finish() override;
  void Run() override;

  int64_t TotalBytes() const;

  Executor& executor_;
  Retirer& retirer_;
  std::unique_ptr<Place[]> places_;
  // For the trace: when each strand came to its place, its owner's; and when all had.
  std::unique_ptr<absl::Duration[]> came_;
  absl::Duration ready_;
  // Strands that have not come, and one more until the ranks have agreed.
  alignas(sync::kApartBytes) sync::Atomic<int> missing_;
  // After a drop: places that their strands have not passed, and one more until Drop returns.
  sync::Atomic<int> to_pass_{0};
  // A launch: lists that have not ended.
  sync::Atomic<int> lists_{0};
  int64_t pieces_ = 0;
};

}  // namespace mp::host

#endif  // MP_HOST_OPERATION_H_
