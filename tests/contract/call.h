// One operation of a whole group with the tensors of all its ranks, so that a test says what it
// calls once and then calls it through any door, on any backend, and checks every byte.
//
//   Call call(*world, {0, 1, 2}, {.kind = OpKind::kGather, .shape = {2, 0}, .extents = {3, 0, 5}});
//   ... call.Post(rank.region()) on every rank, or call.Post(world->region()) once ...
//   call.ExpectDone();
#ifndef MP_TESTS_CONTRACT_CALL_H_
#define MP_TESTS_CONTRACT_CALL_H_

#include <deque>
#include <string>
#include <vector>

#include "mp/world.h"
#include "tests/contract/tensor.h"

namespace mp::test {

// An int as an index.
inline size_t At(int i) { return static_cast<size_t>(i); }

// Where inputs lie: apart from the outputs; as the output (AllReduce) or in their own slots of it
// (gathers); or the one on even peers and the other on odd ones.
enum class Inputs { kApart, kInPlace, kMixed };

// What the elements are: whatever suits (bits where they are only moved), or what is said here.
enum class Contents { kUsual, kSmallNumbers, kWild, kSpecials };

struct CallSpec {
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kF32;
  Shape shape = {4};                  // gathers: dimension `dim` is each rank's extent
  std::vector<int64_t> extents = {};  // gathers; empty for 1, 2, 3, ...
  ReduceOp op = ReduceOp::kSum;
  double scale = 1;
  int root = 0;
  int dim = -1;
  bool shared_output = false;
  Inputs inputs = Inputs::kApart;
  Layout input_layout = {};
  Layout output_layout = {};
  Contents contents = Contents::kUsual;
  uint64_t seed = 1;

  std::string ToString() const;
};

class Call {
 public:
  // `ranks` of the World, in the order of the Region that it will be called on.
  Call(World& world, const std::vector<int>& ranks, const CallSpec& spec);
  // All ranks of the World.
  Call(World& world, const CallSpec& spec);

  absl::Status Post(RankRegion& region) const;
  absl::StatusOr<Work> Start(RankRegion& region) const;
  absl::Status AddTo(Batch& batch, int peer) const;
  absl::Status Post(Region& region) const;
  absl::StatusOr<std::vector<Work>> Start(Region& region) const;

  // Expects the result on every rank, and every other byte as it was.
  void ExpectDone() const;
  // Expects that the operation has not touched anything.
  void ExpectUntouched() const;

  int world_size() const { return static_cast<int>(inputs_.size()); }
  const CallSpec& spec() const { return spec_; }
  // What `peer` gives; the output may be a null view.
  const TensorView& input(int peer) const { return inputs_[static_cast<size_t>(peer)]; }
  TensorView output(int peer) const;
  // The dense elements that `peer` gives and gets.
  const Bytes& contents(int peer) const { return contents_[static_cast<size_t>(peer)]; }
  const Bytes& expected() const { return expected_; }

 private:
  bool HasOutput(int peer) const;
  bool InPlace(int peer) const;
  void MakeReduction();
  void MakeGather();
  Tensor& NewTensor(int peer, const Shape& shape, const Layout& layout);
  Tensor& OutputOf(int peer, const Shape& shape);
  AllReduceOptions reduce_options() const;
  GatherOptions gather_options() const;

  World& world_;
  std::vector<int> ranks_;
  CallSpec spec_;
  std::deque<Tensor> tensors_;
  std::vector<TensorView> inputs_;
  std::vector<Tensor*> apart_;    // peer -> its input where that is a tensor of its own, else null
  std::vector<Tensor*> outputs_;  // peer -> its output, or null
  std::vector<Bytes> contents_;
  Bytes expected_;
};

// The part of `output` that `extent` elements along `dim` from `offset` on are joined into; only
// where that is rows of one pitch.
TensorView SlotOf(const TensorView& output, int dim, int64_t offset, int64_t extent);

}  // namespace mp::test

#endif  // MP_TESTS_CONTRACT_CALL_H_
