#include "tests/fake/transfer.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fake/graph.h"

namespace mp::fake {

// A send and the receive that it meets.
struct Transfer {
  struct Side {
    CUstream_st* stream = nullptr;  // null before it is launched
    bool started = false;
    char* data = nullptr;
    size_t bytes = 0;
  };
  Side send, recv;
  bool moved = false;
  int finished = 0;  // of the two
};

namespace {

class SendsAndReceives final : public Task {
 public:
  SendsAndReceives(Core& core, const PostsOfRank& launch, CUstream_st* stream)
      : core_(core), state_(launch.state), stream_(stream) {
    for (const Post& post : launch.posts) {
      auto& counts = post.sends ? state_->sent : state_->received;
      const size_t from = post.sends ? state_->rank : post.peer;
      const size_t to = post.sends ? post.peer : state_->rank;
      const Key key{from, to, counts[post.peer]++};
      std::shared_ptr<Transfer>& met = state_->clique->transfers[key];
      if (met == nullptr) met = std::make_shared<Transfer>();
      Transfer::Side& mine = post.sends ? met->send : met->recv;
      mine = {stream, false, post.data, post.bytes};
      if (met->send.stream != nullptr && met->recv.stream != nullptr &&
          met->send.bytes != met->recv.bytes) {
        core_.Report(absl::StrCat(Name(), " rank ", from, " sends ", met->send.bytes,
                                  " bytes and rank ", to, " receives ", met->recv.bytes));
      }
      parts_.push_back({post, key, met});
    }
  }

  std::string Name() const override {
    return absl::StrCat("sends and receives of communicator ", state_->clique->number, ", rank ",
                        state_->rank, ",");
  }

  bool Ready() const override {
    if (state_->aborted) return true;
    if (!started_) return occupant() == nullptr;
    return !core_.stalled && std::all_of(parts_.begin(), parts_.end(),
                                         [](const Part& part) { return part.theirs().started; });
  }

  bool Run() override {
    if (state_->aborted) return Finish();
    if (started_) {
      for (const Part& part : parts_) Move(*part.transfer);
      return Finish();
    }
    started_ = true;
    occupant() = stream_;
    for (const Part& part : parts_) {
      part.mine().started = true;
      if (part.theirs().started && !core_.stalled) Move(*part.transfer);
    }
    return false;
  }

  std::vector<Blocker> Blockers() const override {
    if (!started_) return {{occupant(), "has no room on its device beside a kernel"}};
    std::vector<Blocker> blockers;
    if (core_.stalled) blockers.push_back({nullptr, "stands still, as the test wants it"});
    for (const Part& part : parts_) {
      const Transfer::Side& theirs = part.theirs();
      if (theirs.started) continue;
      blockers.push_back(
          {theirs.stream,
           absl::StrCat("waits for rank ", part.post.peer,
                        part.post.sends ? " to receive" : " to send",
                        theirs.stream ? ", which is queued" : ", which has not launched it")});
    }
    return blockers;
  }

 private:
  using Key = std::tuple<size_t, size_t, uint64_t>;
  struct Part {
    Transfer::Side& mine() const { return post.sends ? transfer->send : transfer->recv; }
    const Transfer::Side& theirs() const { return post.sends ? transfer->recv : transfer->send; }
    Post post;
    Key key;
    std::shared_ptr<Transfer> transfer;
  };

  CUstream_st*& occupant() const { return core_.occupants[static_cast<size_t>(state_->device)]; }

  // Once.
  void Move(Transfer& it) {
    const size_t bytes = std::min(it.send.bytes, it.recv.bytes);
    if (std::exchange(it.moved, true) || bytes == 0) return;
    if (core_.Find(it.send.data, bytes) == nullptr || core_.Find(it.recv.data, bytes) == nullptr) {
      core_.Report(absl::StrCat(Name(), " when it ran: a buffer that is not there"));
    } else {
      std::memmove(it.recv.data, it.send.data, bytes);
    }
  }

  bool Finish() {
    if (occupant() == stream_ && started_) occupant() = nullptr;
    --state_->outstanding;
    --core_.collectives;
    for (const Part& part : parts_) {
      if (++part.transfer->finished == 2) state_->clique->transfers.erase(part.key);
    }
    return true;
  }

  Core& core_;
  const std::shared_ptr<RankState> state_;
  CUstream_st* const stream_;
  std::vector<Part> parts_;
  bool started_ = false;
};

}  // namespace

cudaError_t Start(Core& core, const PostsOfRank& posts) {
  const auto make = [&core, posts](CUstream_st* on) -> std::unique_ptr<Task> {
    if (IsGone(core, "a send or receive", *posts.state)) {
      return std::make_unique<Action>("a send or receive", [] {});
    }
    ++posts.state->outstanding;
    ++core.collectives;
    return std::make_unique<SendsAndReceives>(core, posts, on);
  };
  if (posts.stream->capture != nullptr) return Record(*posts.stream, make);
  core.Enqueue(posts.stream, make(posts.stream));
  return cudaSuccess;
}

}  // namespace mp::fake
