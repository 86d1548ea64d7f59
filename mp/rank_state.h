// What the World keeps about one rank, shared by all Groups of which it is a member.  Internal.
#ifndef MP_RANK_STATE_H_
#define MP_RANK_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "mp/base/ring_queue.h"
#include "mp/base/sync.h"
#include "mp/device.h"
#include "mp/flight.h"
#include "mp/stream.h"
#include "mp/trace.h"

namespace mp {

class Group;
class Operation;

using LogSink = std::function<void(absl::string_view)>;

// A post that has no ticket yet.
struct Pending {
  Group* group = nullptr;
  Operation* operation = nullptr;
  uint64_t cycles = 0;  // when
};

// The World's Run that is on.  Guarded by the Order's mutex.
struct RunState {
  bool failed = false;
  std::string cause;  // "rank 2: its function has returned ..."
};

struct RankState {
  int id = 0;
  Device* device = nullptr;
  std::unique_ptr<Stream> stream;
  // The thread that drives the rank, by sync::ThisThread; 0 for none.
  sync::Atomic<uint64_t> driver{0};
  // Where that thread was when it posted last.
  sync::Atomic<uint32_t> core{0};
  void NoteCore(uint32_t now) {
    if (core.load(sync::kRelaxed) != now) core.store(now, sync::kRelaxed);
  }
  WorldTrace* trace = nullptr;  // null where the World is not traced

  // Makes a new stream this rank's: gives it a name ("compute stream") and, where the World is
  // traced, a Track.
  void Adopt(Stream& new_stream, absl::string_view name) const {
    new_stream.set_name(absl::StrCat("rank ", id, "'s ", name));
    if (trace != nullptr) new_stream.set_track(&trace->NewTrack(id, name));
  }

  // Guarded by the Order's mutex.
  RingQueue<Pending> pending;  // in the order of the posts, over all Groups
  FlightRing flight;
  bool left = false;  // posts nothing more for now
  std::string left_cause;

  // Guarded by the World.
  std::vector<std::unique_ptr<Stream>> more_streams;
  struct Membership {
    Group* group;
    int peer;
  };
  std::vector<Membership> memberships;
};

}  // namespace mp

#endif  // MP_RANK_STATE_H_
