#include "mp/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "mp/overlap.h"

namespace mp {
namespace {

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// The compared fields.  What is not here may differ: pointers, pitches, in place or not, streams,
// a shard's size along the joined dimension, and the output of a rank that gets none.
struct Field {
  absl::string_view name;
  bool (*same)(const Descriptor& a, const Descriptor& b);
};
constexpr std::array<Field, 9> kFields{{
    {"kind", [](const Descriptor& a, const Descriptor& b) { return a.kind == b.kind; }},
    {"dtype", [](const Descriptor& a, const Descriptor& b) { return a.dtype == b.dtype; }},
    {"op", [](const Descriptor& a, const Descriptor& b) { return a.reduce_op == b.reduce_op; }},
    {"scale", [](const Descriptor& a, const Descriptor& b) { return SameBits(a.scale, b.scale); }},
    {"dim", [](const Descriptor& a, const Descriptor& b) { return a.dim == b.dim; }},
    {"shape", [](const Descriptor& a, const Descriptor& b) { return a.shape == b.shape; }},
    {"root", [](const Descriptor& a, const Descriptor& b) { return a.root == b.root; }},
    {"shared_output",
     [](const Descriptor& a, const Descriptor& b) { return a.shared_output == b.shared_output; }},
    {"graph", [](const Descriptor& a, const Descriptor& b) { return a.graph == b.graph; }},
}};

bool Same(const Descriptor& a, const Descriptor& b) {
  return std::all_of(kFields.begin(), kFields.end(),
                     [&](const Field& field) { return field.same(a, b); });
}

std::string Describe(const Descriptor& step) {
  if (step.kind == OpKind::kGraph) return absl::StrCat(OpKindName(step.kind), " ", step.graph);
  if (!MovesData(step.kind)) return std::string(OpKindName(step.kind));
  std::string shape = step.shape.ToString();
  if (step.dim >= 0) {
    std::vector<std::string> sizes;
    for (int i = 0; i < step.shape.rank(); ++i) {
      sizes.push_back(i == step.dim ? "*" : absl::StrCat(step.shape.dim(i)));
    }
    shape = absl::StrCat("[", absl::StrJoin(sizes, ", "), "]");
  }
  std::string text = absl::StrCat(OpKindName(step.kind), " ", DTypeName(step.dtype), shape);
  if (step.kind == OpKind::kAllReduce) absl::StrAppend(&text, " ", ReduceOpName(step.reduce_op));
  if (step.scale != 1.0) absl::StrAppendFormat(&text, " scale=%.17g", step.scale);
  if (step.dim >= 0) absl::StrAppend(&text, " dim=", step.dim);
  if (step.root >= 0) absl::StrAppend(&text, " root=", step.root);
  if (step.shared_output) absl::StrAppend(&text, " shared_output");
  return text;
}

// The names of the fields in which some two of the lists differ.
std::string DifferingFields(const std::vector<absl::Span<const Descriptor>>& lists) {
  std::vector<absl::string_view> names;
  const bool counts_differ = std::any_of(
      lists.begin(), lists.end(),
      [&](absl::Span<const Descriptor> list) { return list.size() != lists[0].size(); });
  if (counts_differ) names.push_back("number of operations in the batch");
  for (const Field& field : kFields) {
    const bool differs = std::any_of(lists.begin(), lists.end(), [&](auto list) {
      for (size_t i = 0; i < std::min(list.size(), lists[0].size()); ++i) {
        if (!field.same(list[i], lists[0][i])) return true;
      }
      return false;
    });
    if (differs) names.push_back(field.name);
  }
  return absl::StrJoin(names, ", ");
}

// Groups ranks that said the same; the largest group first (of equals that with the first rank),
// all others marked.
std::string DescribeDiffering(const Operation& operation, absl::Span<const int> ranks) {
  struct Group {
    absl::Span<const Descriptor> steps;
    std::vector<int> ranks;
  };
  std::vector<Group> groups;
  std::vector<absl::Span<const Descriptor>> lists;
  for (int peer = 0; peer < operation.world_size; ++peer) {
    absl::Span<const Descriptor> steps = operation.steps;
    for (const Operation::Differing& other : operation.differing) {
      if (other.peer == peer) steps = other.steps;
    }
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Group& g) { return Agree(g.steps, steps); });
    const int rank = ranks[static_cast<size_t>(peer)];
    if (same != groups.end()) {
      same->ranks.push_back(rank);
    } else {
      groups.push_back({steps, {rank}});
      lists.push_back(steps);
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.ranks.size() > b.ranks.size(); });
  std::string text = absl::StrCat("the ranks differ in ", DifferingFields(lists), ": ");
  for (size_t i = 0; i < groups.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", RankList(groups[i].ranks), ": ",
                    Describe(groups[i].steps), i == 0 ? "" : " (differs)");
  }
  return text;
}

bool Receives(const Descriptor& step, int peer) {
  return step.kind == OpKind::kAllGather || peer == step.root;
}

// Every result must be as long along the joined dimension as the shards together.
std::string FindWrongExtent(const Descriptor& step, absl::Span<const Part> parts,
                            absl::Span<const int> ranks) {
  int64_t total = 0;
  bool overflow = false;
  for (const Part& part : parts) {
    overflow |= __builtin_add_overflow(total, part.input_extent, &total);
  }
  const auto sizes = [&] {
    return absl::StrJoin(parts, " + ", [](std::string* out, const Part& part) {
      absl::StrAppend(out, part.input_extent);
    });
  };
  if (overflow) return absl::StrCat("the shards' sizes ", sizes(), " exceed 2^63 - 1");
  for (size_t peer = 0; peer < parts.size(); ++peer) {
    if (!Receives(step, static_cast<int>(peer)) || parts[peer].output_extent == total) continue;
    return absl::StrCat("the output of rank ", ranks[peer], " has ", parts[peer].output_extent,
                        " along dimension ", step.dim, ", the shards together have ", sizes(),
                        " = ", total);
  }
  return "";
}

}  // namespace

bool Agree(absl::Span<const Descriptor> a, absl::Span<const Descriptor> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i])) return false;
  }
  return true;
}

std::string Describe(absl::Span<const Descriptor> steps) {
  return absl::StrJoin(steps, " + ", [](std::string* out, const Descriptor& step) {
    absl::StrAppend(out, Describe(step));
  });
}

std::string FindDisagreement(const Operation& operation, absl::Span<const int> ranks) {
  if (!operation.differing.empty()) return DescribeDiffering(operation, ranks);
  if (!operation.recordings.empty()) return FindRecordedDisagreement(operation, ranks);
  for (int i = 0; i < operation.step_count(); ++i) {
    const Descriptor& step = operation.steps[static_cast<size_t>(i)];
    if (step.dim < 0) continue;
    std::string text = FindWrongExtent(step, operation.step_parts(i), ranks);
    if (!text.empty()) return absl::StrCat(Describe(step), ": ", text);
  }
  return FindOverlap(operation, ranks);
}

std::string RankList(absl::Span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    absl::StrAppend(&text, i == 0 ? "" : ", ", ranks[i]);
    if (end - i > 2) absl::StrAppend(&text, "-", ranks[end - 1]);
    if (end - i == 2) absl::StrAppend(&text, ", ", ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace mp
