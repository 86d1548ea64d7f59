// Shows that overlaps are found: Overlap against sets of bytes for all small pairs of footprints,
// and FindOverlap against the sets of bytes that seeded operations read and write (ALI-1 to ALI-3).
// Nothing is ever read here: the addresses are made up.

#include "mp/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bitset>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mp::test {
namespace {

char* At(int64_t address) { return reinterpret_cast<char*>(static_cast<intptr_t>(address)); }

// --- two footprints ------------------------------------------------------------------------------

constexpr int64_t kBase = 0x1000;

uint64_t BytesOf(const Footprint& footprint) {
  uint64_t bytes = 0;
  for (int64_t row = 0; row < footprint.rows; ++row) {
    for (int64_t byte = 0; byte < footprint.width; ++byte) {
      bytes |= uint64_t{1} << (footprint.begin - At(kBase) + row * footprint.pitch + byte);
    }
  }
  return bytes;
}

// Footprints that begin at `begin`, of up to 3 rows one pitch of up to 5 apart; and single rows
// without a pitch, which may be longer.
std::vector<Footprint> SmallFootprints(int64_t begin) {
  std::vector<Footprint> found;
  for (int64_t pitch = 1; pitch <= 5; ++pitch) {
    for (int64_t width = 0; width <= pitch; ++width) {
      for (int64_t rows = 0; rows <= 3; ++rows) found.push_back({At(begin), rows, pitch, width});
    }
  }
  for (int64_t width = 0; width <= 12; ++width) found.push_back({At(begin), 1, 0, width});
  return found;
}

TEST(Overlap, IsExactForOnePitchAndForSingleRows) {
  for (const Footprint& a : SmallFootprints(kBase + 18)) {
    for (int64_t begin = 0; begin <= 36; ++begin) {
      for (const Footprint& b : SmallFootprints(kBase + begin)) {
        const bool share = (BytesOf(a) & BytesOf(b)) != 0;
        const bool exact = a.pitch == b.pitch || a.rows <= 1 || b.rows <= 1;
        const bool found = Overlap(a, b);
        ASSERT_TRUE(exact ? found == share : found || !share)
            << found << " at " << begin << ": " << a.rows << " rows, pitch " << a.pitch
            << ", width " << a.width << " and " << b.rows << " rows, pitch " << b.pitch
            << ", width " << b.width;
        ASSERT_EQ(Overlap(b, a), found);
      }
    }
  }
}

TEST(Overlap, OfRowsOfDifferentPitchIsThatOfTheirRanges) {
  const Footprint a = {At(kBase), 3, 8, 1};      // bytes 0, 8, 16
  const Footprint b = {At(kBase + 1), 2, 7, 1};  // bytes 1, 8
  const Footprint c = {At(kBase + 1), 3, 6, 1};  // bytes 1, 7, 13
  const Footprint d = {At(kBase + 17), 3, 6, 1};
  EXPECT_TRUE(Overlap(a, b));
  EXPECT_TRUE(Overlap(a, c)) << "told though no byte is shared";
  EXPECT_FALSE(Overlap(a, d)) << "behind the last row";
}

TEST(Overlap, HoldsFarApart) {
  constexpr int64_t kPitch = int64_t{1} << 33;
  const Footprint a = {At(kPitch), 1000, kPitch, 4};
  EXPECT_FALSE(Overlap(a, {At(kPitch + 4), 1000, kPitch, kPitch - 4}));
  EXPECT_TRUE(Overlap(a, {At(kPitch + 4), 1000, kPitch, kPitch - 3}));
  EXPECT_TRUE(Overlap(a, {At(1000 * kPitch + 3), 1, 0, 1}));
  EXPECT_FALSE(Overlap(a, {At(1000 * kPitch + 4), 1, 0, 1}));
}

// --- operations ----------------------------------------------------------------------------------

Operation OperationOf(const Descriptor& step, std::vector<Part> parts) {
  Operation operation;
  operation.world_size = static_cast<int>(parts.size());
  operation.steps = {step};
  operation.parts = std::move(parts);
  return operation;
}

std::vector<int> Ranks(const Operation& operation) {
  std::vector<int> ranks;
  for (int peer = 0; peer < operation.world_size; ++peer) ranks.push_back(peer);
  return ranks;
}

std::string Found(const Operation& operation) { return FindOverlap(operation, Ranks(operation)); }

Descriptor Reduction(const Shape& shape, bool shared_output = false) {
  Descriptor step;
  step.dtype = DType::kI8;
  step.shape = shape;
  step.shared_output = shared_output;
  return step;
}

// What a rank reads or writes, by address: the element's index in the result, or in the input.
using Elements = std::map<int64_t, int64_t>;

// One byte an element.  `block`: elements behind one step of dim; `offset`: of the input along dim
// in the result, which has `total`.
Elements ElementsOf(const Shape& shape, int dim, const void* data, int64_t pitch, int64_t offset,
                    int64_t total) {
  Elements elements;
  const int64_t block = shape.Product(dim + 1, shape.rank());
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t outer = i / block / shape.dim(dim);
    const int64_t along = i / block % shape.dim(dim);
    const int64_t address =
        reinterpret_cast<intptr_t>(data) + i / shape.columns() * pitch + i % shape.columns();
    elements[address] = (outer * total + offset + along) * block + i % block;
  }
  return elements;
}

// Whether two maps share an address; `differently`: with another element.
bool Share(const Elements& a, const Elements& b, bool differently) {
  for (const auto& [address, element] : a) {
    const auto other = b.find(address);
    if (other != b.end() && (!differently || other->second != element)) return true;
  }
  return false;
}

// A gather of at most 3 ranks somewhere in 60 bytes.  Inputs lie in their slots now and then.
struct RandomGather {
  explicit RandomGather(uint64_t seed) : random(seed) {
    const int ranks = 2 + Below(2);
    step.kind = Below(2) == 0 ? OpKind::kGather : OpKind::kAllGather;
    step.root = step.kind == OpKind::kGather ? Below(ranks) : -1;
    step.dtype = DType::kI8;
    const Shape sizes = {1 + Below(2), 1 + Below(2), 1 + Below(3)};
    step.dim = Below(3);
    step.shape = sizes.With(step.dim, 0);
    for (int r = 0; r < ranks; ++r) extents.push_back(Below(step.dim == 2 ? 4 : 2));
    for (const int64_t extent : extents) total += extent;
    pitch = (step.dim == 2 ? total : sizes.dim(2)) + Below(4);
    for (int r = 0; r < ranks; ++r) parts.push_back(PartOf(r));
    for (int r = 0; r < ranks; ++r) PlaceInput(r);
  }

  int Below(int limit) { return static_cast<int>(random() % static_cast<uint64_t>(limit)); }
  Part PartOf(int rank) {
    Part part;
    part.input_extent = extents[static_cast<size_t>(rank)];
    part.input_pitch = pitch;
    if (step.root < 0 || step.root == rank) {
      part.output = At(kBase + 20 * rank + Below(40));
      part.output_pitch = pitch;
      part.output_extent = total;
    }
    return part;
  }
  int64_t OffsetOf(int rank) const {
    int64_t offset = 0;
    for (int r = 0; r < rank; ++r) offset += extents[static_cast<size_t>(r)];
    return offset;
  }
  void PlaceInput(int rank) {
    Part& part = parts[static_cast<size_t>(rank)];
    part.input = At(kBase + 200 + 30 * rank);
    const void* output = parts[static_cast<size_t>(step.root < 0 ? Below(2) : step.root)].output;
    const int64_t along = step.dim == 2 ? 1 : step.shape.Product(step.dim + 1, 2) * pitch;
    const int choice = Below(4);
    if (choice == 0) return;
    part.input = static_cast<const char*>(output) + OffsetOf(rank) * along;
    if (choice == 1) part.input = static_cast<const char*>(part.input) + Below(3) - 1;
  }
  Elements InputOf(int rank) const {
    const Part& part = parts[static_cast<size_t>(rank)];
    return ElementsOf(step.shape.With(step.dim, part.input_extent), step.dim, part.input,
                      part.input_pitch, OffsetOf(rank), total);
  }
  Elements OutputOf(int rank) const {
    const Part& part = parts[static_cast<size_t>(rank)];
    if (part.output == nullptr) return {};
    return ElementsOf(step.shape.With(step.dim, total), step.dim, part.output, part.output_pitch, 0,
                      total);
  }
  // Two outputs share a byte, or an output shares one with an input that is another element there.
  bool Overlaps() const {
    for (size_t a = 0; a < parts.size(); ++a) {
      const Elements output = OutputOf(static_cast<int>(a));
      for (size_t b = 0; b < parts.size(); ++b) {
        const int other = static_cast<int>(b);
        if (b < a && Share(output, OutputOf(other), false)) return true;
        if (Share(output, InputOf(other), true)) return true;
      }
    }
    return false;
  }
  // A slot is then rows of no one pitch.
  bool SeveralBlocks() const { return step.dim < 2 && step.shape.Product(0, step.dim) > 1; }

  std::mt19937_64 random;
  Descriptor step;
  std::vector<int64_t> extents;
  int64_t total = 0;
  int64_t pitch = 0;
  std::vector<Part> parts;
};

TEST(FindOverlap, IsExactForGathersOfOnePitch) {
  int overlapping = 0, apart = 0;
  for (uint64_t seed = 1; seed <= 40000; ++seed) {
    const RandomGather gather(seed);
    if (gather.SeveralBlocks()) continue;
    const bool expected = gather.Overlaps();
    const std::string found = Found(OperationOf(gather.step, gather.parts));
    ASSERT_EQ(!found.empty(), expected) << "seed " << seed << ": " << found;
    ++(expected ? overlapping : apart);
  }
  EXPECT_GT(overlapping, 5000);
  EXPECT_GT(apart, 5000);
}

TEST(FindOverlap, MissesNothingInGathersOfSeveralBlocks) {
  int overlapping = 0, apart = 0;
  for (uint64_t seed = 1; seed <= 40000; ++seed) {
    RandomGather gather(seed);
    if (!gather.SeveralBlocks()) continue;
    if (gather.Overlaps()) {
      ++overlapping;
      ASSERT_NE(Found(OperationOf(gather.step, gather.parts)), "") << "seed " << seed;
    }
    int64_t away = kBase + 1000;  // from all outputs
    for (Part& part : gather.parts) part.input = At(away += 100);
    if (gather.Overlaps()) continue;
    ++apart;
    ASSERT_EQ(Found(OperationOf(gather.step, gather.parts)), "") << "seed " << seed;
  }
  EXPECT_GT(overlapping, 500);
  EXPECT_GT(apart, 500);
}

// --- one case each, with its text ----------------------------------------------------------------

// A part of an AllReduce of dense tensors.
Part Reduced(int64_t input, int64_t output) { return {.input = At(input), .output = At(output)}; }

// A part of an AllGather of 2 x `extent` i8 along the last dimension.
Part Joined(int64_t input, int64_t input_pitch, int64_t extent, int64_t output,
            int64_t output_pitch, int64_t total) {
  return {At(input), input_pitch, At(output), output_pitch, extent, total};
}

Descriptor Join(bool shared_output = false) {
  Descriptor step;
  step.kind = OpKind::kAllGather;
  step.dtype = DType::kI8;
  step.dim = 1;
  step.shape = {2, 0};
  step.shared_output = shared_output;
  return step;
}

// What is found when ranks bring these.
std::string Reducing(std::vector<Part> parts, bool shared_output = false) {
  return Found(OperationOf(Reduction({16}, shared_output), std::move(parts)));
}
std::string Joining(std::vector<Part> parts) {
  return Found(OperationOf(Join(), std::move(parts)));
}

constexpr char kNotItsPlace[] = ", and the input is not exactly its own place in the output";

TEST(FindOverlap, AReductionMayBeInPlace) {
  EXPECT_EQ(Reducing({Reduced(0x100, 0x100), Reduced(0x110, 0x110)}), "");
  // One shared, read-only input is fine; another rank's output is not.
  EXPECT_EQ(Reducing({Reduced(0x100, 0x200), Reduced(0x100, 0x210)}), "");
  EXPECT_EQ(
      Reducing({Reduced(0x100, 0x200), Reduced(0x200, 0x300)}),
      absl::StrCat("AllReduce: the output of rank 0 at [0x200, 0x210) and the input of rank 1 at "
                   "[0x200, 0x210) overlap",
                   kNotItsPlace));
}

TEST(FindOverlap, AReductionShiftedByOneIsTold) {
  for (const int64_t shift : {-15, -1, 1, 15}) {
    const Operation operation =
        OperationOf(Reduction({16}), {Reduced(0x100, 0x400), Reduced(0x200, 0x200 + shift)});
    EXPECT_EQ(FindOverlap(operation, {5, 7}),
              absl::StrCat("AllReduce: the output of rank 7 at [0x", absl::Hex(0x200 + shift),
                           ", 0x", absl::Hex(0x210 + shift),
                           ") and the input of rank 7 at [0x200, 0x210) overlap", kNotItsPlace));
  }
  for (const int64_t shift : {-16, 16}) {
    EXPECT_EQ(Reducing({Reduced(0x100, 0x400), Reduced(0x200, 0x200 + shift)}), "");
  }
}

TEST(FindOverlap, TwoRanksWithOneOutputAreTold) {
  EXPECT_EQ(Reducing({Reduced(0x100, 0x400), Reduced(0x200, 0x500), Reduced(0x300, 0x40f)}),
            "AllReduce: the output of rank 0 at [0x400, 0x410) and the output of rank 2 at [0x40f, "
            "0x41f) "
            "overlap");
}

TEST(FindOverlap, ASharedOutputIsOneOnAllRanks) {
  EXPECT_EQ(Reducing({Reduced(0x100, 0x400), Reduced(0x200, 0x400)}, true), "");
  EXPECT_EQ(Reducing({Reduced(0x400, 0x400), Reduced(0x400, 0x400)}, true), "");
  const std::string different = " with shared_output: ranks 0 and 2 give different outputs";
  EXPECT_EQ(Reducing({Reduced(0x100, 0x400), Reduced(0x200, 0x400), Reduced(0x300, 0x410)}, true),
            absl::StrCat("AllReduce", different));
  // A gather's must have one pitch too.
  EXPECT_EQ(Found(OperationOf(Join(true),
                              {Joined(0x100, 1, 1, 0x400, 8, 3), Joined(0x200, 1, 1, 0x400, 8, 3),
                               Joined(0x300, 1, 1, 0x400, 9, 3)})),
            absl::StrCat("AllGather", different));
}

TEST(FindOverlap, AShardMayLieInItsSlotOfAnyOutput) {
  // Rows of 5 bytes, 8 apart: columns [0, 2) are rank 0's slot and [2, 5) rank 1's.
  const Part first = Joined(0x400, 8, 2, 0x400, 8, 5);
  for (const int64_t shift : {-1, 0, 1}) {
    const int64_t input = 0x402 + shift;
    EXPECT_EQ(
        Joining({first, Joined(input, 8, 3, 0x800, 8, 5)}),
        shift == 0
            ? ""
            : absl::StrCat(
                  "AllGather: the output of rank 0 at [0x400, 0x40d) and the input of rank 1 "
                  "at [0x",
                  absl::Hex(input), ", 0x", absl::Hex(input + 11), ") overlap", kNotItsPlace));
  }
  // In its slot, with another pitch; and in the other rank's slot.
  EXPECT_NE(Joining({first, Joined(0x402, 9, 3, 0x800, 8, 5)}), "");
  EXPECT_NE(Joining({Joined(0x402, 8, 2, 0x400, 8, 5), Joined(0x700, 8, 3, 0x800, 8, 5)}), "");
}

TEST(FindOverlap, TheOutputOfARankThatGetsNoneIsNotLookedAt) {
  Descriptor step = Join();
  step.kind = OpKind::kGather;
  step.root = 0;
  const Part other = Joined(0x700, 3, 3, 0x400, 8, 5);
  EXPECT_EQ(Found(OperationOf(step, {Joined(0x600, 2, 2, 0x400, 8, 5), other})), "");
}

TEST(FindOverlap, OutputsMayBeColumnsOfOneTensor) {
  // Two results of 3 columns and two shards side by side in rows of 9.
  const Part first = Joined(0x406, 9, 1, 0x400, 9, 3);
  EXPECT_EQ(Joining({first, Joined(0x407, 9, 2, 0x403, 9, 3)}), "");
  EXPECT_EQ(Joining({first, Joined(0x407, 9, 2, 0x402, 9, 3)}),
            "AllGather: the output of rank 0 at [0x400, 0x40c) and the output of rank 1 at [0x402, "
            "0x40e) "
            "overlap");
}

TEST(FindOverlap, WhatIsEmptyNeverOverlaps) {
  EXPECT_EQ(Found(OperationOf(Reduction({0}), {Reduced(0x100, 0x100), Reduced(0x100, 0x100)})), "");
  EXPECT_EQ(Joining({Joined(0x401, 8, 0, 0x400, 8, 3), Joined(0x402, 8, 0, 0x800, 8, 3),
                     Joined(0x300, 8, 3, 0x900, 8, 3)}),
            "");
  EXPECT_EQ(Joining({Part(), Part()}), "");
}

TEST(FindOverlap, StepsOfABatchMustNotDependOnEachOther) {
  Operation operation;
  operation.world_size = 2;
  operation.steps = {Reduction({16}), Reduction({16})};
  operation.parts = {Reduced(0x100, 0x100), Reduced(0x200, 0x200), Reduced(0x300, 0x300),
                     Reduced(0x400, 0x500)};
  EXPECT_EQ(Found(operation), "");
  operation.parts[2] = Reduced(0x100, 0x300);
  EXPECT_NE(Found(operation), "") << "not even where the output of the other is in place";
  operation.parts[2] = Reduced(0x10f, 0x300);
  EXPECT_EQ(
      Found(operation),
      absl::StrCat(
          "AllReduce: the output of rank 0 at [0x100, 0x110) in step 0 and the input of rank 0 "
          "at [0x10f, 0x11f) in step 1 overlap",
          kNotItsPlace));
}

TEST(FindOverlap, LooksPastWhatHasNoData) {
  Operation operation;
  operation.world_size = 2;
  operation.steps = {{.kind = OpKind::kAcquireSlot}, Reduction({4})};
  operation.parts = {Part(), Part(), Reduced(0x100, 0x100), Reduced(0x200, 0x200)};
  EXPECT_EQ(Found(operation), "");
  operation.parts[3] = Reduced(0x200, 0x102);
  EXPECT_NE(Found(operation), "");
}

}  // namespace
}  // namespace mp::test
