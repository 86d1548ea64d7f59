#include "tests/contract/call.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mp/base/check.h"
#include "tests/contract/backend_under_test.h"
#include "tests/support/oracle.h"

namespace mp::test {
namespace {

Bytes ContentsOf(const CallSpec& spec, int64_t count, uint64_t seed) {
  const bool moved = spec.kind != OpKind::kAllReduce;
  switch (spec.contents) {
    case Contents::kSmallNumbers:
      return SmallNumbers(spec.dtype, count, seed);
    case Contents::kWild:
      return WildNumbers(spec.dtype, count, seed);
    case Contents::kSpecials:
      return WildNumbers(spec.dtype, count, seed, /*specials=*/true);
    case Contents::kUsual:
      break;
  }
  if (moved) return AnyBits(spec.dtype, count, seed);
  if (Under().folds_in_rank_order) return WildNumbers(spec.dtype, count, seed);
  return spec.op == ReduceOp::kProd ? SmallFactors(spec.dtype, count, seed)
                                    : SmallNumbers(spec.dtype, count, seed);
}

}  // namespace

std::string CallSpec::ToString() const {
  std::string text = absl::StrCat(OpKindName(kind), " ", DTypeName(dtype), shape.ToString());
  if (kind == OpKind::kAllReduce) {
    absl::StrAppend(&text, " ", ReduceOpName(op), " scale ", scale);
  } else {
    absl::StrAppend(&text, " dim ", dim, " extents {", absl::StrJoin(extents, ","), "} root ",
                    root);
  }
  return absl::StrCat(text, " inputs ", static_cast<int>(inputs), " shared ", shared_output,
                      " layouts ", input_layout.offset, "+", input_layout.gap, " ",
                      output_layout.offset, "+", output_layout.gap, " seed ", seed);
}

TensorView SlotOf(const TensorView& output, int dim, int64_t offset, int64_t extent) {
  const Shape& shape = output.shape();
  const int last = shape.rank() - 1;
  if (dim == last) return output.Columns(offset, extent).value();
  MP_CHECK(shape.Product(0, dim) <= 1);
  char* first = static_cast<char*>(output.data()) +
                offset * shape.Product(dim + 1, last) * output.row_pitch();
  return TensorView::Pitched(first, output.dtype(), shape.With(dim, extent), output.row_pitch())
      .value();
}

Call::Call(World& world, const CallSpec& spec) : Call(world, std::vector<int>(), spec) {}

Call::Call(World& world, const std::vector<int>& ranks, const CallSpec& spec)
    : world_(world), ranks_(ranks), spec_(spec) {
  if (ranks_.empty()) {
    for (int rank = 0; rank < world.world_size(); ++rank) ranks_.push_back(rank);
  }
  inputs_.resize(ranks_.size());
  apart_.resize(ranks_.size());
  outputs_.resize(ranks_.size());
  contents_.resize(ranks_.size());
  if (spec_.kind == OpKind::kAcquireSlot) return;
  spec_.kind == OpKind::kAllReduce ? MakeReduction() : MakeGather();
}

bool Call::HasOutput(int peer) const { return spec_.kind != OpKind::kGather || peer == spec_.root; }

bool Call::InPlace(int peer) const {
  return spec_.inputs == Inputs::kInPlace || (spec_.inputs == Inputs::kMixed && peer % 2 == 0);
}

Tensor& Call::NewTensor(int peer, const Shape& shape, const Layout& layout) {
  return tensors_.emplace_back(world_.device(ranks_[At(peer)]), spec_.dtype, shape, layout);
}

Tensor& Call::OutputOf(int peer, const Shape& shape) {
  if (spec_.shared_output && outputs_[0] != nullptr) return *outputs_[0];
  return NewTensor(peer, shape, spec_.output_layout);
}

void Call::MakeReduction() {
  for (int peer = 0; peer < world_size(); ++peer) {
    contents_[At(peer)] = ContentsOf(spec_, spec_.shape.elements(), spec_.seed * 1000 + At(peer));
    Tensor& output = OutputOf(peer, spec_.shape);
    outputs_[At(peer)] = &output;
    Tensor* input = &output;
    if (!InPlace(peer))
      input = apart_[At(peer)] = &NewTensor(peer, spec_.shape, spec_.input_layout);
    input->Fill(contents_[At(peer)]);
    inputs_[At(peer)] = input->view();
  }
  expected_ = Fold(spec_.dtype, spec_.op, spec_.scale, contents_);
}

void Call::MakeGather() {
  const int dim = spec_.dim < 0 ? spec_.dim + spec_.shape.rank() : spec_.dim;
  if (spec_.extents.empty()) {
    for (int peer = 0; peer < world_size(); ++peer) spec_.extents.push_back(peer + 1);
  }
  MP_CHECK(static_cast<int>(spec_.extents.size()) == world_size());
  std::vector<Shape> shapes;
  int64_t joined = 0;
  for (const int64_t extent : spec_.extents) {
    shapes.push_back(spec_.shape.With(dim, extent));
    joined += extent;
  }
  for (int peer = 0; peer < world_size(); ++peer) {
    if (HasOutput(peer)) outputs_[At(peer)] = &OutputOf(peer, spec_.shape.With(dim, joined));
  }
  int64_t offset = 0;
  for (int peer = 0; peer < world_size(); ++peer) {
    const Shape& shape = shapes[At(peer)];
    contents_[At(peer)] = ContentsOf(spec_, shape.elements(), spec_.seed * 1000 + At(peer));
    if (InPlace(peer)) {
      Tensor& home = *outputs_[At(spec_.kind == OpKind::kGather ? spec_.root : peer)];
      inputs_[At(peer)] = SlotOf(home.view(), dim, offset, shape.dim(dim));
      home.Fill(inputs_[At(peer)], contents_[At(peer)]);
    } else {
      apart_[At(peer)] = &NewTensor(peer, shape, spec_.input_layout);
      apart_[At(peer)]->Fill(contents_[At(peer)]);
      inputs_[At(peer)] = apart_[At(peer)]->view();
    }
    offset += shape.dim(dim);
  }
  expected_ = Join(spec_.dtype, shapes, dim, contents_);
}

TensorView Call::output(int peer) const {
  return outputs_[At(peer)] == nullptr ? TensorView() : outputs_[At(peer)]->view();
}

AllReduceOptions Call::reduce_options() const {
  return {.op = spec_.op, .scale = spec_.scale, .shared_output = spec_.shared_output};
}
GatherOptions Call::gather_options() const {
  return {.dim = spec_.dim, .shared_output = spec_.shared_output};
}

absl::Status Call::Post(RankRegion& region) const {
  const int peer = region.peer();
  switch (spec_.kind) {
    case OpKind::kAcquireSlot:
      return region.AcquireSlot();
    case OpKind::kGather:
      return region.Gather(input(peer), output(peer), spec_.root, gather_options());
    case OpKind::kAllGather:
      return region.AllGather(input(peer), output(peer), gather_options());
    default:
      break;
  }
  if (InPlace(peer)) return region.AllReduce(input(peer), reduce_options());
  return region.AllReduce(input(peer), output(peer), reduce_options());
}

absl::StatusOr<Work> Call::Start(RankRegion& region) const {
  const int peer = region.peer();
  switch (spec_.kind) {
    case OpKind::kGather:
      return region.StartGather(input(peer), output(peer), spec_.root, gather_options());
    case OpKind::kAllGather:
      return region.StartAllGather(input(peer), output(peer), gather_options());
    default:
      break;
  }
  if (InPlace(peer)) return region.StartAllReduce(input(peer), reduce_options());
  return region.StartAllReduce(input(peer), output(peer), reduce_options());
}

absl::Status Call::AddTo(Batch& batch, int peer) const {
  switch (spec_.kind) {
    case OpKind::kGather:
      return batch.Gather(input(peer), output(peer), spec_.root, gather_options());
    case OpKind::kAllGather:
      return batch.AllGather(input(peer), output(peer), gather_options());
    default:
      break;
  }
  if (InPlace(peer)) return batch.AllReduce(input(peer), reduce_options());
  return batch.AllReduce(input(peer), output(peer), reduce_options());
}

absl::Status Call::Post(Region& region) const {
  std::vector<TensorView> outputs;
  for (int peer = 0; peer < world_size(); ++peer) outputs.push_back(output(peer));
  switch (spec_.kind) {
    case OpKind::kGather:
      return region.Gather(inputs_, output(spec_.root), spec_.root, gather_options());
    case OpKind::kAllGather:
      return region.AllGather(inputs_, outputs, gather_options());
    default:
      break;
  }
  if (spec_.inputs == Inputs::kInPlace) return region.AllReduce(inputs_, reduce_options());
  return region.AllReduce(inputs_, outputs, reduce_options());
}

absl::StatusOr<std::vector<Work>> Call::Start(Region& region) const {
  std::vector<TensorView> outputs;
  for (int peer = 0; peer < world_size(); ++peer) outputs.push_back(output(peer));
  switch (spec_.kind) {
    case OpKind::kGather:
      return region.StartGather(inputs_, output(spec_.root), spec_.root, gather_options());
    case OpKind::kAllGather:
      return region.StartAllGather(inputs_, outputs, gather_options());
    default:
      if (spec_.inputs == Inputs::kInPlace) return region.StartAllReduce(inputs_, reduce_options());
      return region.StartAllReduce(inputs_, outputs, reduce_options());
  }
}

void Call::ExpectDone() const {
  SCOPED_TRACE(spec_.ToString());
  const bool reduced = spec_.kind == OpKind::kAllReduce;
  for (int peer = 0; peer < world_size(); ++peer) {
    if (apart_[At(peer)] != nullptr) {
      apart_[At(peer)]->ExpectUntouched(absl::StrCat("input of peer ", peer));
    }
    if (outputs_[At(peer)] == nullptr) continue;
    outputs_[At(peer)]->ExpectElements(expected_, absl::StrCat("output of peer ", peer), reduced);
    if (!reduced || peer == 0) continue;
    EXPECT_EQ(FirstDifference(spec_.dtype, outputs_[At(peer)]->Elements(), outputs_[0]->Elements(),
                              false),
              "")
        << "peer " << peer << " has other bits than peer 0";
  }
}

void Call::ExpectUntouched() const {
  SCOPED_TRACE(spec_.ToString());
  for (const Tensor& tensor : tensors_) tensor.ExpectUntouched("a tensor");
}

}  // namespace mp::test
