// Sends and receives of the fake NCCL.
//
// Those of one rank and group are one kernel, which starts when its stream comes to it and its
// device has room, and is done when all its peers' kernels have started.  The k-th send from one
// rank to another meets the k-th receive.
#ifndef MP_TESTS_FAKE_TRANSFER_H_
#define MP_TESTS_FAKE_TRANSFER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "tests/fake/collective.h"

namespace mp::fake {

// One ncclSend or ncclRecv.
struct Post {
  bool sends = false;
  char* data = nullptr;
  size_t bytes = 0;
  size_t peer = 0;
};

struct PostsOfRank {
  std::shared_ptr<const bool> open;  // as with Launch
  std::shared_ptr<RankState> state;
  CUstream_st* stream = nullptr;
  std::vector<Post> posts;
};

// Queues the kernel, or records it where its stream captures.
cudaError_t Start(Core& core, const PostsOfRank& posts);

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_TRANSFER_H_
