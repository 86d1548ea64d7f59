// What goes wrong in a program.
#include "tests/random/program.h"

namespace mp::test {
namespace {

// The type of the same size that takes its place; itself where there is none.
DType OtherType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return DType::kI32;
    case DType::kI32:
      return DType::kU32;
    case DType::kF16:
      return DType::kBF16;
    case DType::kBF16:
      return DType::kF16;
    case DType::kF64:
      return DType::kI64;
    case DType::kI64:
      return DType::kU64;
    case DType::kI8:
      return DType::kU8;
    default:
      return dtype;
  }
}

// Another root than the call's, and not the odd member itself, which would need an output then.
bool OtherRoot(int members, int odd_member, Call& call) {
  for (int root = 0; root < members; ++root) {
    if (root == call.root || root == odd_member) continue;
    call.root = root;
    return true;
  }
  return false;
}

// One row less, where rows are not what is joined; the root of a gather would see that its output
// does not fit.
bool Fewer(const Shape& shape, int odd_member, const Call& call) {
  if (call.kind == OpKind::kGather && call.root == odd_member) return false;
  if (shape.rank() == 0 || shape.dim(0) == 0) return false;
  return call.kind == OpKind::kAllReduce || (call.dim + shape.rank()) % shape.rank() != 0;
}

// Whether the call can be told apart in the way that is drawn.
bool MakeOdd(const Program& program, int members, int odd_member, Random& random, OddCall& odd) {
  Call& call = odd.call;
  const bool reduces = call.kind == OpKind::kAllReduce;
  const Array& input = program.arrays[At(call.input)];
  odd.dtype = input.dtype;
  switch (random.Below(5)) {
    case 0:
      // An average is not defined of what may take its place.
      if (reduces && (call.op == ReduceOp::kAvg || call.scale != 1)) return false;
      odd.dtype = OtherType(input.dtype);
      return odd.dtype != input.dtype;
    case 1:
      call.op = call.op == ReduceOp::kMax ? ReduceOp::kMin : ReduceOp::kMax;
      return reduces;
    case 2:
      call.scale = call.scale == 1 ? 0.25 : 1;
      return reduces && IsReducibleFloat(input.dtype);
    case 3:
      return call.kind == OpKind::kGather && OtherRoot(members, odd_member, call);
    default:
      odd.fewer = Fewer(input.places[At(odd_member)].shape, odd_member, call);
      return odd.fewer;
  }
}

}  // namespace

void AddWrong(Program& program, uint64_t seed) {
  Random random(seed + 1);
  std::vector<int> where;
  for (int i = 0; i < static_cast<int>(program.steps.size()); ++i) {
    const Step& step = program.steps[At(i)];
    if (step.kind == StepKind::kCall && program.groups[At(step.group)].size() > 1)
      where.push_back(i);
  }
  if (where.empty()) return;
  program.wrong = static_cast<Wrong>(1 + random.Below(kWrongCount - 1));
  program.wrong_step = random.Pick(where);
  const Step& step = program.steps[At(program.wrong_step)];
  const std::vector<int>& group = program.groups[At(step.group)];
  const int members = static_cast<int>(group.size());
  const int m = random.Below(members);
  program.wrong_rank = group[At(m)];
  if (program.wrong != Wrong::kMismatch) return;
  program.wrong_call = At(random.Below(static_cast<int>(step.calls.size())));
  program.odd.call = step.calls[program.wrong_call];
  // Whatever the call is, AcquireSlot is another one.
  if (!MakeOdd(program, members, m, random, program.odd)) program.wrong = Wrong::kAcquires;
}

}  // namespace mp::test
