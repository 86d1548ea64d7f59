#include "tests/explore/ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/oracle.h"

namespace mp::explore {
namespace {

using test::Bytes;

constexpr DType kType = DType::kF32;
constexpr uint8_t kPoison = 0xA5;
constexpr int64_t kRows = 2;

size_t At(int i) { return static_cast<size_t>(i); }
int64_t Columns(int rank) { return rank + 1; }

}  // namespace

Ranks::Ranks(const Setup& setup) : size_(setup.ranks), statuses_(At(setup.ranks)) {
  WorldOptions options = setup.world;
  auto backend =
      host::NewBackend({.devices = setup.ranks, .threads = 2, .execution = setup.execution});
  auto world = World::Create(std::move(backend).value(), options);
  world_ = std::move(world).value();
}

void Ranks::Drive(const std::function<absl::Status(Rank&)>& body,
                  const std::vector<std::function<void()>>& beside) {
  Gate gate(size_ + static_cast<int>(beside.size()));
  std::vector<sync::Thread> threads;
  for (int id = 0; id < size_; ++id) {
    threads.push_back(sync::Thread::Start(absl::StrCat("rank ", id), [&, id] {
                        auto rank = world_->Attach(id);
                        explore::Expect(rank.ok(), rank.status().ToString());
                        gate.Pass();
                        if (rank.ok()) statuses_[At(id)] = body(**rank);
                      }).value());
  }
  for (const auto& other : beside) {
    threads.push_back(sync::Thread::Start(absl::StrCat("beside ", threads.size()), [&] {
                        gate.Pass();
                        other();
                      }).value());
  }
}

void Ranks::ExpectAllOk() const {
  for (const absl::Status& status : statuses_) explore::Expect(status.ok(), status.ToString());
}

void Ranks::ExpectAll(ErrorKind kind) const {
  for (const absl::Status& status : statuses_) {
    explore::Expect(KindOf(status) == kind,
                    absl::StrCat("not ", ErrorKindName(kind), ": ", status.ToString()));
  }
}

void Ranks::ExpectNoTimeHasPassed() const {
  const absl::Duration passed = sync::Clock::Steady().Now() - begin_;
  explore::Expect(passed == absl::ZeroDuration(),
                  absl::StrCat("somebody slept until a deadline: ", absl::FormatDuration(passed)));
}

TensorView Call::View(Bytes& bytes, const Shape& shape) const {
  return TensorView(bytes.data(), kType, shape);
}

void Call::Expect(const std::vector<Bytes>& expected) const {
  for (size_t rank = 0; rank < outputs_.size(); ++rank) {
    if (outputs_[rank] == expected[rank]) continue;
    explore::Expect(
        false, absl::StrCat("rank ", rank, ": ",
                            test::FirstDifference(kType, outputs_[rank], expected[rank], false)));
  }
}

void Call::ExpectDoneOrUntouched() const { Expect(outputs_ == before_ ? before_ : expected_); }

namespace {

class AllReduceCall : public Call {
 public:
  AllReduceCall(int ranks, int64_t elements, uint64_t seed, bool in_place)
      : shape_{elements}, in_place_(in_place) {
    for (int rank = 0; rank < ranks; ++rank) {
      inputs_.push_back(
          test::WildNumbers(kType, elements, seed * 100 + static_cast<uint64_t>(rank)));
    }
    const Bytes sum = test::Fold(kType, ReduceOp::kSum, 1.0, inputs_);
    expected_.assign(At(ranks), sum);
    outputs_ = in_place ? inputs_ : std::vector<Bytes>(At(ranks), Bytes(sum.size(), kPoison));
    Keep();
  }

  absl::Status Post(RankRegion& region) override {
    const auto [input, output] = Views(region.peer());
    return in_place_ ? region.AllReduce(output) : region.AllReduce(input, output);
  }
  absl::StatusOr<Work> Start(RankRegion& region) override {
    const auto [input, output] = Views(region.peer());
    return in_place_ ? region.StartAllReduce(output) : region.StartAllReduce(input, output);
  }
  absl::Status PostAll(Region& region) override {
    std::vector<TensorView> inputs, outputs;
    for (int peer = 0; peer < region.world_size(); ++peer) {
      inputs.push_back(Views(peer).first);
      outputs.push_back(Views(peer).second);
    }
    return in_place_ ? region.AllReduce(outputs) : region.AllReduce(inputs, outputs);
  }

 private:
  std::pair<TensorView, TensorView> Views(int peer) {
    return {View(inputs_[At(peer)], shape_), View(outputs_[At(peer)], shape_)};
  }

  const Shape shape_;
  const bool in_place_;
};

class GatherCall : public Call {
 public:
  // Of all ranks where `root` is -1.
  GatherCall(int ranks, int root, uint64_t seed) : root_(root) {
    std::vector<Shape> shapes;
    for (int rank = 0; rank < ranks; ++rank) {
      shapes.push_back({kRows, Columns(rank)});
      inputs_.push_back(
          test::AnyBits(kType, kRows * Columns(rank), seed * 100 + static_cast<uint64_t>(rank)));
      columns_ += Columns(rank);
    }
    const Bytes joined = test::Join(kType, shapes, 1, inputs_);
    outputs_.assign(At(ranks), Bytes(joined.size(), kPoison));
    Keep();
    for (int rank = 0; rank < ranks; ++rank) {
      expected_.push_back(root < 0 || rank == root ? joined : outputs_[At(rank)]);
    }
  }

  absl::Status Post(RankRegion& region) override {
    const int peer = region.peer();
    return root_ < 0 ? region.AllGather(Input(peer), Output(peer))
                     : region.Gather(Input(peer), Output(peer), root_);
  }
  absl::StatusOr<Work> Start(RankRegion& region) override {
    const int peer = region.peer();
    return root_ < 0 ? region.StartAllGather(Input(peer), Output(peer))
                     : region.StartGather(Input(peer), Output(peer), root_);
  }
  absl::Status PostAll(Region& region) override {
    std::vector<TensorView> inputs, outputs;
    for (int peer = 0; peer < region.world_size(); ++peer) {
      inputs.push_back(Input(peer));
      outputs.push_back(Output(peer));
    }
    return root_ < 0 ? region.AllGather(inputs, outputs)
                     : region.Gather(inputs, outputs[At(root_)], root_);
  }

 private:
  TensorView Input(int peer) { return View(inputs_[At(peer)], {kRows, Columns(peer)}); }
  TensorView Output(int peer) { return View(outputs_[At(peer)], {kRows, columns_}); }

  const int root_;
  int64_t columns_ = 0;
};

}  // namespace

std::unique_ptr<Call> NewAllReduce(int ranks, int64_t elements, uint64_t seed, bool in_place) {
  return std::make_unique<AllReduceCall>(ranks, elements, seed, in_place);
}

std::unique_ptr<Call> NewGather(int ranks, int root, uint64_t seed) {
  return std::make_unique<GatherCall>(ranks, root, seed);
}

std::unique_ptr<Call> NewAllGather(int ranks, uint64_t seed) {
  return std::make_unique<GatherCall>(ranks, -1, seed);
}

}  // namespace mp::explore
