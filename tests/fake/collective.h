// Collectives of the fake NCCL as they are on the devices.
//
// One is a kernel on each rank: it starts when its stream comes to it and its device has room, and
// is done when all have started.  The k-th launch of a rank meets the k-th of the others; nothing
// but a finding tells when they are not the same operation, or when two devices got two of them in
// different orders.
#ifndef MP_TESTS_FAKE_COLLECTIVE_H_
#define MP_TESTS_FAKE_COLLECTIVE_H_

#include <nccl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/fake/core.h"

namespace mp::fake {

struct Meeting;
struct Transfer;

// Communicators that were made together.
struct Clique {
  int number = 0;
  size_t size = 0;
  size_t released = 0;  // ranks that have destroyed or aborted theirs
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
  // By sender, receiver and number between the two.
  std::map<std::tuple<size_t, size_t, uint64_t>, std::shared_ptr<Transfer>> transfers;
};

// One rank's communicator, until its kernels are done.
struct RankState {
  std::shared_ptr<Clique> clique;
  size_t rank = 0;
  int device = 0;
  uint64_t launches = 0;
  std::map<size_t, uint64_t> sent, received;  // by peer
  int outstanding = 0;
  bool aborted = false;
  bool released = false;                                    // destroyed or aborted
  std::map<int, std::pair<ncclDataType_t, double>> scales;  // by operation: of ncclRedOpCreate...
};

// What all ranks of one collective must say alike.
struct Collective {
  std::string name;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // one of NCCL's own
  int root = -1;             // -1: everybody gets the result

  bool operator==(const Collective&) const = default;
};

// One rank's part.
struct Member {
  const char* send = nullptr;
  char* recv = nullptr;  // null where it gets nothing
  double scale = 1;
  CUstream_st* stream = nullptr;  // null before the rank launches
  bool started = false;
};

struct Launch {
  std::shared_ptr<const bool> open;  // what it waits for where it is late
  std::shared_ptr<RankState> state;
  Collective what;
  Member member;
};

// Whether a graph goes on with a communicator that is gone, which is a finding.
bool IsGone(Core& core, const std::string& name, const RankState& state);

// Queues the kernel, or records it where its stream captures.
cudaError_t Start(Core& core, const Launch& launch);

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_COLLECTIVE_H_
