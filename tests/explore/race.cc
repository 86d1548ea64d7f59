#include "tests/explore/race.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/explore/engine.h"

extern "C" const char __executable_start;

namespace mp::explore {
namespace {

constexpr uintptr_t kGranuleBytes = 8;
constexpr size_t kSlots = size_t{1} << 15;
constexpr size_t kProbes = 8;
constexpr size_t kAccesses = 4;

// Small, so that what is looked at often stays near.
struct Access {
  uint32_t time = 0;   // of its thread; 0 for none
  uint32_t place = 0;  // from the beginning of the program
  uint8_t thread = 0;
  uint8_t begin = 0, end = 0;  // in the granule
  bool writes = false;
};

struct Key {
  uintptr_t number = 0;
  uint64_t run = 0;
};

// The last accesses to some bytes, as many as fit.
struct Granule {
  Access accesses[kAccesses];
  uint32_t next = 0;  // to be overwritten
};

// Allocation comes here, so this has none.
Key keys[kSlots];
Granule granules[kSlots];

// Null where it has no past and is not to get one.
Granule* Find(uintptr_t number, uint64_t run, bool makes) {
  const size_t home = (number * 0x9E3779B97F4A7C15u) >> 40;
  size_t free = kSlots;
  for (size_t probe = 0; probe < kProbes; ++probe) {
    const size_t slot = (home + probe) % kSlots;
    if (keys[slot].run == run && keys[slot].number == number) return &granules[slot];
    if (keys[slot].run == run) continue;
    free = slot;
    break;  // a slot that is taken stays so for the run
  }
  if (!makes) return nullptr;
  if (free == kSlots) free = home % kSlots;
  keys[free] = {number, run};
  granules[free] = Granule();
  return &granules[free];
}

std::string Words(const Access& access, const Engine& engine) {
  return absl::StrCat(engine.NameOf(access.thread), access.writes ? " writes" : " reads", " at 0x",
                      absl::Hex(access.place));
}

void NoteInGranule(Engine& engine, uintptr_t number, const Access& access) {
  const VectorClock& clock = engine.clock();
  Granule& granule = *Find(number, engine.run(), true);
  Access* slot = nullptr;
  for (const Access& past : granule.accesses) {
    if (past.time == access.time && past.thread == access.thread && past.begin == access.begin &&
        past.end == access.end && past.writes >= access.writes) {
      return;
    }
  }
  for (Access& past : granule.accesses) {
    if (past.time == 0) {
      if (slot == nullptr) slot = &past;
      continue;
    }
    const bool before = past.thread == access.thread || past.time <= clock[past.thread];
    const bool overlaps = past.begin < access.end && access.begin < past.end;
    if (overlaps && !before && (past.writes || access.writes)) {
      engine.Fail(absl::StrCat("data race: ", Words(past, engine), ", ", Words(access, engine),
                               ", and nothing orders them"));
    }
    // Whoever would race with the older one would with the newer one, too.
    const bool covers = access.begin <= past.begin && past.end <= access.end;
    if (covers && before && (access.writes || !past.writes)) {
      if (slot == nullptr || slot->time != 0) {
        slot = &past;
      } else {
        past.time = 0;
      }
    }
  }
  if (slot == nullptr) slot = &granule.accesses[granule.next++ % kAccesses];
  *slot = access;
}

}  // namespace

void NoteAccess(const void* data, size_t bytes, bool writes, const void* place) {
  Engine* const engine = Engine::Current();
  if (engine == nullptr || Quiet::on() || engine->redundant()) return;
  const Quiet quiet;
  // Behind the last operation; the next one may tell of it.
  Access access{.time = engine->clock()[engine->self()] + 1,
                .place = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place) -
                                               reinterpret_cast<uintptr_t>(&__executable_start)),
                .thread = static_cast<uint8_t>(engine->self()),
                .writes = writes};
  auto at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t end = at + bytes;
  while (at < end) {
    const uintptr_t next = std::min(end, (at / kGranuleBytes + 1) * kGranuleBytes);
    access.begin = static_cast<uint8_t>(at % kGranuleBytes);
    access.end = static_cast<uint8_t>(access.begin + (next - at));
    NoteInGranule(*engine, at / kGranuleBytes, access);
    at = next;
  }
}

void ForgetAccesses(const void* data, size_t bytes) {
  const Engine* const engine = Engine::Current();
  if (engine == nullptr) return;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (uintptr_t number = begin / kGranuleBytes; number * kGranuleBytes < begin + bytes; ++number) {
    Granule* const granule = Find(number, engine->run(), false);
    if (granule != nullptr) *granule = Granule();
  }
}

}  // namespace mp::explore
