// Shows what ranks must agree on and how a disagreement is told (MIS-1, MIS-2): each compared field
// by itself, and the whole text for majorities, ties, batches and sizes that do not add up.

#include "mp/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mp::test {
namespace {

using Steps = std::vector<Descriptor>;

Descriptor Reduce(const Shape& shape = {4}) {
  Descriptor step;
  step.shape = shape;
  return step;
}

// A gather of `shape` with size `*` along `dim`.
Descriptor Gather(int root, const Shape& shape = {2, 0}, int dim = 1) {
  Descriptor step;
  step.kind = root < 0 ? OpKind::kAllGather : OpKind::kGather;
  step.root = root;
  step.dim = dim;
  step.shape = shape.With(dim, 0);
  return step;
}

template <typename Change>
Descriptor With(Descriptor step, Change change) {
  change(step);
  return step;
}

std::vector<int> Numbers(int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(i);
  return ranks;
}

// An operation as the scheduler leaves it when ranks have posted these, the first of them first.
Operation Posted(const std::vector<Steps>& posts) {
  Operation operation;
  operation.world_size = static_cast<int>(posts.size());
  operation.steps = posts[0];
  operation.parts.resize(posts[0].size() * posts.size());
  for (size_t peer = 1; peer < posts.size(); ++peer) {
    if (!Agree(posts[0], posts[peer])) {
      operation.differing.push_back({static_cast<int>(peer), posts[peer]});
    }
  }
  return operation;
}

// What is told when ranks 0, 1, ... post these.
std::string Told(const std::vector<Steps>& posts) {
  return FindDisagreement(Posted(posts), Numbers(static_cast<int>(posts.size())));
}

// --- descriptions --------------------------------------------------------------------------------

TEST(RankList, NamesRunsOfThreeAndMoreByTheirEnds) {
  EXPECT_EQ(RankList({3}), "rank 3");
  EXPECT_EQ(RankList({0, 1}), "ranks 0, 1");
  EXPECT_EQ(RankList({0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(RankList({0, 1, 2, 5}), "ranks 0-2, 5");
  EXPECT_EQ(RankList({0, 2, 4}), "ranks 0, 2, 4");
  EXPECT_EQ(RankList({0, 2, 3, 5, 6, 7, 8, 63}), "ranks 0, 2, 3, 5-8, 63");
  EXPECT_EQ(RankList({7, 6, 5}), "ranks 7, 6, 5");
  EXPECT_EQ(RankList({2, 0, 1, 3, 4, 5}), "ranks 2, 0, 1, 3-5");
}

TEST(Describe, SaysWhatWasAsked) {
  EXPECT_EQ(Describe(Steps{Reduce({4, 2})}), "AllReduce f32[4, 2] sum");
  EXPECT_EQ(Describe(Steps{Reduce(Shape())}), "AllReduce f32[] sum");
  EXPECT_EQ(Describe(Steps{With(Reduce(),
                                [](Descriptor& step) {
                                  step.dtype = DType::kBF16;
                                  step.reduce_op = ReduceOp::kAvg;
                                  step.scale = 0.5;
                                  step.shared_output = true;
                                })}),
            "AllReduce bf16[4] avg scale=0.5 shared_output");
  EXPECT_EQ(Describe(Steps{Gather(0)}), "Gather f32[2, *] dim=1 root=0");
  EXPECT_EQ(Describe(Steps{Gather(-1, {2, 3, 4}, 0)}), "AllGather f32[*, 3, 4] dim=0");
  EXPECT_EQ(Describe(Steps{With(Gather(-1), [](Descriptor& s) { s.shared_output = true; })}),
            "AllGather f32[2, *] dim=1 shared_output");
  EXPECT_EQ(Describe(Steps{{.kind = OpKind::kAcquireSlot}}), "AcquireSlot");
  EXPECT_EQ(Describe(Steps{Reduce(), Gather(3)}),
            "AllReduce f32[4] sum + Gather f32[2, *] dim=1 root=3");
  EXPECT_EQ(Describe(Steps{}), "");
}

// --- the compared fields -------------------------------------------------------------------------

struct FieldCase {
  const char* name;  // as the text has it
  Descriptor one, other;
};

// Each pair differs in one field.
std::vector<FieldCase> Fields() {
  const auto scaled = [](double scale) {
    return With(Reduce(), [scale](Descriptor& step) { step.scale = scale; });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {
      {"kind", Gather(0), With(Gather(0), [](auto& step) { step.kind = OpKind::kAllGather; })},
      {"dtype", Reduce(), With(Reduce(), [](auto& step) { step.dtype = DType::kI32; })},
      {"op", Reduce(), With(Reduce(), [](auto& step) { step.reduce_op = ReduceOp::kMax; })},
      {"scale", scaled(1.0), scaled(0.5)},
      {"scale", scaled(0.0), scaled(-0.0)},
      {"scale", scaled(nan), scaled(0.25)},
      {"dim", Gather(0, {0, 0}, 1), Gather(0, {0, 0}, 0)},
      {"shape", Reduce({4}), Reduce({5})},
      {"shape", Reduce({4}), Reduce({4, 1})},
      {"shape", Reduce({2, 3}), Reduce({3, 2})},
      {"shape", Gather(0, {2, 0}), Gather(0, {3, 0})},
      {"root", Gather(0), Gather(1)},
      {"shared_output", Reduce(), With(Reduce(), [](auto& step) { step.shared_output = true; })},
  };
}

TEST(Agree, ComparesEachField) {
  for (const FieldCase& field : Fields()) {
    const std::string what = absl::StrCat(field.name, ": ", Describe(Steps{field.one}), " and ",
                                          Describe(Steps{field.other}));
    EXPECT_TRUE(Agree(Steps{field.one}, Steps{field.one})) << what;
    EXPECT_TRUE(Agree(Steps{field.other}, Steps{field.other})) << what;
    EXPECT_FALSE(Agree(Steps{field.one}, Steps{field.other})) << what;
    EXPECT_FALSE(Agree(Steps{field.other}, Steps{field.one})) << what;
    // In any place of a batch.
    EXPECT_FALSE(Agree(Steps{Reduce(), field.one}, Steps{Reduce(), field.other})) << what;
    EXPECT_FALSE(Agree(Steps{field.one, Reduce()}, Steps{field.other, Reduce()})) << what;
  }
}

TEST(Agree, ComparesTheNumberOfSteps) {
  EXPECT_TRUE(Agree(Steps{}, Steps{}));
  EXPECT_TRUE(Agree(Steps{Reduce(), Gather(0)}, Steps{Reduce(), Gather(0)}));
  EXPECT_FALSE(Agree(Steps{Reduce()}, Steps{Reduce(), Reduce()}));
  EXPECT_FALSE(Agree(Steps{Reduce()}, Steps{}));
  EXPECT_FALSE(Agree(Steps{Reduce(), Gather(0)}, Steps{Gather(0), Reduce()}));
}

TEST(FindDisagreement, NamesTheFieldThatDiffersAndNoOther) {
  for (const FieldCase& field : Fields()) {
    for (const size_t place : {0, 1}) {
      std::vector<Steps> posts(3, Steps{Reduce(), Reduce()});
      for (Steps& steps : posts) steps[place] = field.one;
      posts[1][place] = field.other;
      EXPECT_EQ(Told(posts), absl::StrCat("the ranks differ in ", field.name,
                                          ": ranks 0, 2: ", Describe(posts[0]),
                                          "; rank 1: ", Describe(posts[1]), " (differs)"));
    }
  }
}

// --- texts ---------------------------------------------------------------------------------------

TEST(FindDisagreement, MarksTheMinority) {
  EXPECT_EQ(Told({{Reduce({4})}, {Reduce({4})}, {Reduce({5})}, {Reduce({4})}}),
            "the ranks differ in shape: ranks 0, 1, 3: AllReduce f32[4] sum; "
            "rank 2: AllReduce f32[5] sum (differs)");
  // The first post need not be in the majority.
  EXPECT_EQ(Told({{Reduce({5})}, {Reduce({4})}, {Reduce({4})}, {Reduce({4})}}),
            "the ranks differ in shape: ranks 1-3: AllReduce f32[4] sum; "
            "rank 0: AllReduce f32[5] sum (differs)");
}

TEST(FindDisagreement, PutsTheFirstRankFirstAmongEquals) {
  EXPECT_EQ(Told({{Reduce({5})}, {Reduce({4})}}),
            "the ranks differ in shape: rank 0: AllReduce f32[5] sum; "
            "rank 1: AllReduce f32[4] sum (differs)");
  EXPECT_EQ(Told({{Reduce({5})}, {Reduce({4})}, {Reduce({4})}, {Reduce({5})}}),
            "the ranks differ in shape: ranks 0, 3: AllReduce f32[5] sum; "
            "ranks 1, 2: AllReduce f32[4] sum (differs)");
}

TEST(FindDisagreement, ListsAllThatWasSaid) {
  EXPECT_EQ(Told({{Gather(0)}, {Reduce({4})}, {Gather(1)}, {Reduce({4})}, {Gather(-1)}}),
            "the ranks differ in kind, dim, shape, root: ranks 1, 3: AllReduce f32[4] sum; "
            "rank 0: Gather f32[2, *] dim=1 root=0 (differs); "
            "rank 2: Gather f32[2, *] dim=1 root=1 (differs); "
            "rank 4: AllGather f32[2, *] dim=1 (differs)");
  EXPECT_EQ(Told({{Reduce()}, {{.kind = OpKind::kAcquireSlot}}}),
            "the ranks differ in kind, shape: rank 0: AllReduce f32[4] sum; "
            "rank 1: AcquireSlot (differs)");
}

TEST(FindDisagreement, GivesTheWorldsNumbers) {
  EXPECT_EQ(FindDisagreement(Posted({{Reduce({4})}, {Reduce({5})}, {Reduce({4})}}), {12, 5, 9}),
            "the ranks differ in shape: ranks 12, 9: AllReduce f32[4] sum; "
            "rank 5: AllReduce f32[5] sum (differs)");
}

TEST(FindDisagreement, TellsBatchesOfDifferentLength) {
  EXPECT_EQ(Told({{Reduce(), Reduce()}, {Reduce()}, {Reduce(), Reduce()}}),
            "the ranks differ in number of operations in the batch: ranks 0, 2: "
            "AllReduce f32[4] sum + AllReduce f32[4] sum; rank 1: AllReduce f32[4] sum (differs)");
  EXPECT_EQ(Told({{Reduce()}, {Reduce({5}), Gather(0)}}),
            "the ranks differ in number of operations in the batch, shape: "
            "rank 0: AllReduce f32[4] sum; "
            "rank 1: AllReduce f32[5] sum + Gather f32[2, *] dim=1 root=0 (differs)");
}

// --- sizes ---------------------------------------------------------------------------------------

// Posts of a gather of f32[2, *] with these sizes; `outputs` has 0 where a rank has none.
Operation Sized(const Descriptor& step, const std::vector<int64_t>& inputs,
                const std::vector<int64_t>& outputs) {
  Operation operation = Posted(std::vector<Steps>(inputs.size(), Steps{step}));
  // Of sizes that no memory has it is not looked at, and wraps.
  const auto pitch = [](int64_t size) {
    return static_cast<int64_t>(uint64_t{4} * static_cast<uint64_t>(size));
  };
  for (size_t peer = 0; peer < inputs.size(); ++peer) {
    const auto address = static_cast<intptr_t>(peer + 1) << 56;
    operation.parts[peer] = {.input = reinterpret_cast<void*>(address),
                             .input_pitch = pitch(inputs[peer]),
                             .output = reinterpret_cast<void*>(address + (int64_t{1} << 52)),
                             .output_pitch = pitch(outputs[peer]),
                             .input_extent = inputs[peer],
                             .output_extent = outputs[peer]};
  }
  return operation;
}

TEST(FindDisagreement, AddsTheShardsUp) {
  EXPECT_EQ(FindDisagreement(Sized(Gather(1), {3, 0, 1}, {0, 4, 0}), Numbers(3)), "");
  EXPECT_EQ(FindDisagreement(Sized(Gather(-1), {3, 0, 1}, {4, 4, 4}), Numbers(3)), "");
  EXPECT_EQ(FindDisagreement(Sized(Gather(1), {3, 0, 1}, {0, 5, 0}), {8, 6, 4}),
            "Gather f32[2, *] dim=1 root=1: the output of rank 6 has 5 along dimension 1, "
            "the shards together have 3 + 0 + 1 = 4");
  EXPECT_EQ(FindDisagreement(Sized(Gather(-1), {3, 0, 1}, {4, 4, 3}), {8, 6, 4}),
            "AllGather f32[2, *] dim=1: the output of rank 4 has 3 along dimension 1, "
            "the shards together have 3 + 0 + 1 = 4");
  // What ranks that get nothing have is not looked at.
  EXPECT_EQ(FindDisagreement(Sized(Gather(1), {3, 0, 1}, {7, 4, 9}), Numbers(3)), "");
}

TEST(FindDisagreement, AddsInSixtyFourBits) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_EQ(FindDisagreement(Sized(Gather(0), {kHuge, kHuge}, {2 * kHuge, 0}), Numbers(2)), "");
  EXPECT_EQ(FindDisagreement(Sized(Gather(0), {kHuge, kHuge}, {2 * kHuge - 1, 0}), Numbers(2)),
            "Gather f32[2, *] dim=1 root=0: the output of rank 0 has 2199023255551 along dimension "
            "1, the shards together have 1099511627776 + 1099511627776 = 2199023255552");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(FindDisagreement(Sized(Gather(0, {0, 0}), {kMost, 1, kMost}, {5, 0, 0}), Numbers(3)),
            absl::StrCat("Gather f32[0, *] dim=1 root=0: the shards' sizes ", kMost, " + 1 + ",
                         kMost, " exceed 2^63 - 1"));
}

TEST(FindDisagreement, LooksAtEveryStepAndThenAtMemory) {
  Operation operation = Posted({{Reduce(), Gather(0)}, {Reduce(), Gather(0)}});
  const auto at = [](int64_t address) { return reinterpret_cast<void*>(address); };
  operation.parts = {{.input = at(0x1000), .output = at(0x1000)},
                     {.input = at(0x2000), .output = at(0x2008)},  // overlaps
                     {at(0x3000), 8, at(0x4000), 16, 2, 4},
                     {at(0x5000), 4, nullptr, 0, 1, 0}};
  EXPECT_EQ(FindDisagreement(operation, Numbers(2)),
            "Gather f32[2, *] dim=1 root=0: the output of rank 0 has 4 along dimension 1, "
            "the shards together have 2 + 1 = 3");
  operation.parts[3].input_extent = 2;
  EXPECT_EQ(
      FindDisagreement(operation, Numbers(2)),
      "AllReduce: the output of rank 1 at [0x2008, 0x2018) in step 0 and the input of rank 1 at "
      "[0x2000, 0x2010) in step 0 overlap, and the input is not exactly its own place in the "
      "output");
  operation.parts[1].output = at(0x2000);
  EXPECT_EQ(FindDisagreement(operation, Numbers(2)), "");
}

TEST(FindDisagreement, FindsNothingWhereAllIsWell) {
  EXPECT_EQ(Told({{{.kind = OpKind::kAcquireSlot}}, {{.kind = OpKind::kAcquireSlot}}}), "");
  EXPECT_EQ(Told({{Reduce({0})}, {Reduce({0})}}), "");
}

}  // namespace
}  // namespace mp::test
