#include "tests/random/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mp::test {
namespace {

std::string Describe(const Program& program, int array) {
  const Array& it = program.arrays[At(array)];
  std::string text = absl::StrCat("#", array, " ", DTypeName(it.dtype));
  for (const Place& place : it.places) {
    absl::StrAppend(&text, " ");
    if (place.arena < 0) {
      absl::StrAppend(&text, "-");
      continue;
    }
    absl::StrAppend(&text, place.shape.ToString(), "@", place.arena, "+", place.offset);
    const int64_t row = place.shape.columns() * SizeOf(it.dtype);
    if (place.pitch != row) absl::StrAppend(&text, "/", place.pitch);
  }
  return text;
}

std::string Describe(const Program& program, const Call& call) {
  std::string text(OpKindName(call.kind));
  if (call.kind == OpKind::kAllReduce) absl::StrAppend(&text, " ", ReduceOpName(call.op));
  if (call.kind != OpKind::kAllReduce) absl::StrAppend(&text, " dim ", call.dim);
  if (call.kind == OpKind::kGather) absl::StrAppend(&text, " root ", call.root);
  if (call.scale != 1) absl::StrAppend(&text, " scale ", call.scale);
  if (call.shared_output) absl::StrAppend(&text, " shared");
  absl::StrAppend(&text, " ", Describe(program, call.input));
  if (call.output != call.input) absl::StrAppend(&text, " -> ", Describe(program, call.output));
  return text;
}

const char* Name(Form form) {
  switch (form) {
    case Form::kPost:
      return "post";
    case Form::kStart:
      return "start";
    case Form::kBatch:
      return "batch";
    case Form::kStartBatch:
      return "start batch";
  }
  return "?";
}

std::string Describe(const Program& program, const Step& step) {
  std::string text;
  switch (step.kind) {
    case StepKind::kFill:
      return absl::StrCat("fill ", Describe(program, step.array));
    case StepKind::kStir:
      return absl::StrCat("stir ", Describe(program, step.array));
    case StepKind::kCopy:
      return absl::StrCat("copy #", step.source, " to ", Describe(program, step.array));
    case StepKind::kCheck:
      return absl::StrCat("check #", step.array);
    case StepKind::kAcquire:
      return "acquire";
    case StepKind::kWait:
      return absl::StrCat("wait for step ", step.started, step.on_host ? ", thread" : "");
    case StepKind::kWrong:
      return absl::StrCat("a wrong call by member ", step.odd);
    case StepKind::kCall:
      break;
  }
  text = Name(step.form);
  for (const Call& call : step.calls) absl::StrAppend(&text, " ", Describe(program, call), ";");
  return text;
}

}  // namespace

const char* Name(Wrong wrong) {
  switch (wrong) {
    case Wrong::kNothing:
      return "nothing";
    case Wrong::kMismatch:
      return "calls something else";
    case Wrong::kAcquires:
      return "calls AcquireSlot";
    case Wrong::kReturns:
      return "returns OK";
    case Wrong::kFails:
      return "returns an error";
    case Wrong::kThrows:
      return "throws";
    case Wrong::kStaysAway:
      return "stays away";
    case Wrong::kCancels:
      return "cancels";
    case Wrong::kCloses:
      return "closes";
  }
  return "?";
}

int Program::position(int group, int rank) const {
  const std::vector<int>& ranks_of = groups[At(group)];
  const auto it = std::find(ranks_of.begin(), ranks_of.end(), rank);
  return it == ranks_of.end() ? -1 : static_cast<int>(it - ranks_of.begin());
}

std::string Program::ToString() const {
  std::string text = absl::StrCat("program ", seed, ", ", ranks, " ranks, groups");
  for (const auto& group : groups) absl::StrAppend(&text, " {", absl::StrJoin(group, ", "), "}");
  absl::StrAppend(&text, "\n");
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    const Step& step = steps[At(i)];
    const bool recorded = graph_begin <= i && i < graph_end;
    absl::StrAppend(&text, recorded ? "  [graph] " : "  ", i, ", group ", step.group, ": ",
                    Describe(*this, step), "\n");
  }
  if (wrong == Wrong::kNothing) return text;
  absl::StrAppend(&text, "  instead of step ", wrong_step, " rank ", wrong_rank, " ", Name(wrong));
  if (wrong == Wrong::kMismatch) {
    absl::StrAppend(&text, ": ", Describe(*this, odd.call), " as ", DTypeName(odd.dtype),
                    odd.fewer ? ", fewer" : "", ", for call ", wrong_call);
  }
  return absl::StrCat(text, "\n");
}

}  // namespace mp::test
