// The seam by hand: what the scheduler does with an operation, for one sum and one gather of uneven
// shards, an operation without data and one that comes to nothing.  On the host and on CUDA over
// the fakes.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "mp/backend.h"
#include "mp/base/sync.h"
#include "mp/communicator.h"
#include "mp/operation.h"
#include "tests/cuda/spike.h"

namespace mp {
namespace {

// What the scheduler does with an operation, for one of each rank.
class ByHand : public SpikeTest, protected Retirer {
 protected:
  void SetUp() override {
    SpikeTest::SetUp();
    std::vector<int> devices(static_cast<size_t>(ranks()));
    std::iota(devices.begin(), devices.end(), 0);
    communicator_ = *backend_->NewCommunicator(devices);
    for (const int device : devices) streams_.push_back(*backend_->device(device).NewStream());
  }
  void TearDown() override {
    for (const auto& stream : streams_) EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    streams_.clear();
    communicator_.reset();
    SpikeTest::TearDown();
  }

  Device& device(int rank) { return backend_->device(rank); }
  Stream& stream(int rank) { return *streams_[static_cast<size_t>(rank)]; }

  std::unique_ptr<Operation> NewOperation(const Descriptor& what, const std::vector<Part>& parts) {
    std::unique_ptr<Operation> operation = communicator_->NewOperation(*this);
    operation->ticket = 1;
    operation->steps = {what};
    operation->parts = parts;
    return operation;
  }

  // One rank's post; the last one issues where streams hold places.
  absl::Status Post(Operation& operation, int peer) {
    absl::Status status;
    bool arrives;
    {
      sync::MutexLock lock(backend_->order().mutex);
      operation.streams[static_cast<size_t>(peer)] = &stream(peer);
      arrives = communicator_->Enter(operation, peer);
      const bool last = peer == ranks() - 1;
      if (last && communicator_->holds_places()) status = communicator_->Issue(operation);
    }
    if (arrives) communicator_->Arrive(operation, peer);
    return status;
  }

  absl::Status Do(const Descriptor& what, const std::vector<Part>& parts) {
    const std::unique_ptr<Operation> operation = NewOperation(what, parts);
    absl::Status status;
    for (int peer = 0; peer < ranks(); ++peer) status = Post(*operation, peer);
    if (!communicator_->holds_places()) status = communicator_->Issue(*operation);
    AwaitRetired();
    return status;
  }

  void AwaitRetired() {
    for (const auto& it : streams_) EXPECT_EQ(it->Synchronize(), absl::OkStatus());
    while (retired_.load() == 0) sync::Yield();
    EXPECT_EQ(retired_.exchange(0), 1);
  }

  std::unique_ptr<Communicator> communicator_;

 private:
  void Retire(Operation&) override { retired_.fetch_add(1); }

  std::vector<std::unique_ptr<Stream>> streams_;
  sync::Atomic<int> retired_{0};
};

TEST_P(ByHand, AllReduce) {
  std::vector<Array> arrays;
  std::vector<Buffer> inputs, outputs;
  std::vector<Part> parts(static_cast<size_t>(ranks()));
  for (int r = 0; r < ranks(); ++r) arrays.push_back(Shard(r, 3, 41));
  Array poison(3, 41);
  for (int r = 0; r < ranks(); ++r) {
    inputs.push_back(*ToDevice(device(r), stream(r), arrays[static_cast<size_t>(r)]));
    outputs.push_back(*ToDevice(device(r), stream(r), poison));
    parts[static_cast<size_t>(r)] = {.input = inputs.back().data(),
                                     .output = outputs.back().data()};
  }
  Descriptor what;
  what.kind = OpKind::kAllReduce;
  what.shape = {3, 41};
  ASSERT_EQ(Do(what, parts), absl::OkStatus());
  for (int r = 0; r < ranks(); ++r) {
    ExpectSum(ToHost(stream(r), outputs[static_cast<size_t>(r)]), ranks());
    Array input = ToHost(stream(r), inputs[static_cast<size_t>(r)]);
    EXPECT_EQ(input.data, arrays[static_cast<size_t>(r)].data);
  }
}

TEST_P(ByHand, GatherOfUnevenShards) {
  const int root = ranks() - 1;
  std::vector<Array> arrays;
  std::vector<Buffer> inputs;
  Array poison(kRows, joined() + kGap);
  const Buffer output = *ToDevice(device(root), stream(root), poison);
  std::vector<Part> parts(static_cast<size_t>(ranks()));
  for (int r = 0; r < ranks(); ++r) arrays.push_back(Shard(r, kRows, width(r)));
  for (int r = 0; r < ranks(); ++r) {
    inputs.push_back(*ToDevice(device(r), stream(r), arrays[static_cast<size_t>(r)]));
    Part& part = parts[static_cast<size_t>(r)];
    part.input = inputs.back().data();
    part.input_pitch = inputs.back().view().row_pitch();
    part.input_extent = width(r);
    if (r != root) continue;
    part.output = output.data();
    part.output_pitch = output.view().row_pitch();
    part.output_extent = joined();
  }
  Descriptor what;
  what.kind = OpKind::kGather;
  what.root = root;
  what.dim = 1;
  what.shape = {kRows, 0};
  ASSERT_EQ(Do(what, parts), absl::OkStatus());
  ExpectJoined(ToHost(stream(root), output), ranks());
}

TEST_P(ByHand, AcquireSlotMovesNothing) {
  Descriptor what;
  what.kind = OpKind::kAcquireSlot;
  EXPECT_EQ(Do(what, std::vector<Part>(static_cast<size_t>(ranks()))), absl::OkStatus());
}

// An event recorded behind a post is that of the operation, also where the operation is not on its
// stream yet, and ends when the operation comes to nothing.
TEST_P(ByHand, AnEventBehindAPostWaitsForTheOperation) {
  Descriptor what;
  what.kind = OpKind::kAcquireSlot;
  const std::vector<Part> parts(static_cast<size_t>(ranks()));
  const std::unique_ptr<Operation> dropped = NewOperation(what, parts);
  ASSERT_EQ(Post(*dropped, 0), absl::OkStatus());
  const Event event = stream(0).Record();
  EXPECT_FALSE(event.Done());
  EXPECT_EQ(event.Synchronize(absl::Milliseconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
  {
    sync::MutexLock lock(backend_->order().mutex);
    communicator_->Drop(*dropped);
  }
  EXPECT_EQ(event.Synchronize(), absl::OkStatus());
  AwaitRetired();
  EXPECT_EQ(Do(what, parts), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Both, ByHand, ::testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace mp
