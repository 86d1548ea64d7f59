// How programs are drawn.
#include <algorithm>

#include "tests/random/arenas.h"
#include "tests/random/program.h"

namespace mp::test {
namespace {

// Up to where sums of whole numbers are exact.
int64_t ExactLimit(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 2048;
    case DType::kBF16:
      return 256;
    default:
      return 1 << 24;
  }
}

class Generator {
 public:
  Generator(uint64_t seed, const ProgramOptions& options)
      : options_(options), random_(seed), arenas_(options, random_) {
    program_.seed = seed;
    program_.ranks = options.ranks;
    program_.variants = options.variants;
    AddGroup(options.ranks);
    for (int i = 0; i < 2; ++i) {
      const int least = options.is_long && !random_.OneIn(8) ? std::min(2, options.ranks) : 1;
      AddGroup(least + random_.Below(options.ranks - least + 1));
    }
  }

  Program Generate() {
    const bool graph = options_.graphs && !options_.wrong && random_.OneIn(2);
    const int begin = graph ? random_.Below(options_.steps) : -1;
    const int end = graph ? begin + 1 + random_.Below(8) : -1;
    for (int i = 0; i < options_.steps; ++i) {
      if (i == begin) BeginGraph();
      if (i == end) EndGraph();
      AddCalls();
      AddSomethingElse();
    }
    if (in_graph_) EndGraph();
    Finish();
    program_.arena_bytes = arenas_.bytes();
    return std::move(program_);
  }

 private:
  // What is known of an array at this point of the body.
  struct State {
    bool known = false;  // filled in this round
    Content content = Content::kBits;
    int64_t bound = 0;
    bool unchecked = false;
    int busy = -1;      // the step that has started an operation on it
    bool open = false;  // others than the owner of its memory read or write it
    bool dirty = true;  // and have, since the last AcquireSlot
  };

  // --- groups and arrays -----------------------------------------------------------------------

  void AddGroup(int size) {
    std::vector<int> ranks = random_.Permutation(options_.ranks);
    ranks.resize(At(size));
    program_.groups.push_back(std::move(ranks));
  }
  const std::vector<int>& group(int g) const { return program_.groups[At(g)]; }
  int size(int g) const { return static_cast<int>(group(g).size()); }

  Array& array(int a) { return program_.arrays[At(a)]; }
  State& state(int a) { return states_[At(a)]; }
  // Arrays that share memory have one root.
  int Root(int a) { return array(a).alias < 0 ? a : array(a).alias; }
  std::vector<int> Family(int a) {
    std::vector<int> all;
    for (int other = 0; other < static_cast<int>(program_.arrays.size()); ++other) {
      if (Root(other) == Root(a)) all.push_back(other);
    }
    return all;
  }

  int Add(Array made, bool open) {
    program_.arrays.push_back(std::move(made));
    states_.emplace_back();
    states_.back().open = open;
    return static_cast<int>(program_.arrays.size()) - 1;
  }

  int NewArray(int g, DType dtype, const std::vector<Shape>& shapes, bool dense) {
    return Add(arenas_.NewArray(g, group(g), dtype, shapes, dense), false);
  }
  int NewShared(int g, DType dtype, const Shape& shape, bool dense) {
    return Add(arenas_.NewShared(g, group(g), dtype, shape, dense), size(g) > 1);
  }

  // --- steps -----------------------------------------------------------------------------------

  int Add(Step step) {
    program_.steps.push_back(std::move(step));
    return static_cast<int>(program_.steps.size()) - 1;
  }
  int here() const { return static_cast<int>(program_.steps.size()); }

  void Wait(int started) {
    const Step& start = program_.steps[At(started)];
    const bool on_host = !in_graph_ && random_.OneIn(options_.is_long ? 50 : 4);
    const std::vector<Call> calls = start.calls;
    Add({.kind = StepKind::kWait, .group = start.group, .started = started, .on_host = on_host});
    for (State& it : states_) {
      if (it.busy == started) it.busy = -1;
    }
    for (const Call& call : calls) {
      if (options_.wrong || random_.OneIn(3)) Check(call.output);
    }
  }
  void WaitForAll() {
    for (size_t a = 0; a < states_.size(); ++a) {
      if (states_[a].busy >= 0) Wait(states_[a].busy);
    }
  }

  void Check(int a) {
    BeforeRead(a);
    if (!state(a).unchecked) return;
    Add({.kind = StepKind::kCheck, .group = array(a).group, .array = a});
    state(a).unchecked = false;
    state(Root(a)).dirty = true;
  }

  void BeforeRead(int a) {
    for (const int it : Family(a)) {
      if (state(it).busy >= 0) Wait(state(it).busy);
    }
  }

  // An operation waits for all ranks itself.
  void BeforeWrite(int a, bool by_call = false) {
    BeforeRead(a);
    for (const int it : Family(a)) {
      Check(it);
      if (it != a) state(it).known = false;
    }
    const bool open = !by_call && (state(a).open || state(Root(a)).open);
    if (open && state(Root(a)).dirty) {
      Add({.kind = StepKind::kAcquire, .group = array(a).group});
      state(Root(a)).dirty = false;
    }
  }

  void Fill(int a, Content content) {
    BeforeWrite(a);
    Add({.kind = StepKind::kFill,
         .group = array(a).group,
         .array = a,
         .content = content,
         .seed = random_.Bits() % 1'000'000'000});
    State& it = state(a);
    it.known = true;
    it.content = content;
    it.bound = content == Content::kFactors ? 4 : 8;
    it.unchecked = false;
  }

  // --- operations ------------------------------------------------------------------------------

  bool Allows(int a, const Call& call) {
    const State& it = state(a);
    if (!it.known) return false;
    if (!IsReducibleFloat(array(a).dtype)) return true;
    if (it.content == Content::kBits) return false;
    switch (call.op) {
      case ReduceOp::kMin:
      case ReduceOp::kMax:
        return true;
      case ReduceOp::kProd:
        return it.content == Content::kFactors || it.content == Content::kWild;
      default:
        return it.content == Content::kWild ||
               (it.content != Content::kResult &&
                it.bound * size(array(a).group) <= ExactLimit(array(a).dtype));
    }
  }

  Content ContentFor(DType dtype, const Call& call) {
    if (!IsReducibleFloat(dtype)) return Content::kBits;
    if (options_.folds_in_rank_order && !random_.OneIn(4)) return Content::kWild;
    return call.op == ReduceOp::kProd ? Content::kFactors : Content::kSmall;
  }

  void AfterReduction(int a, const Call& call, State from) {
    State& it = state(a);
    it.known = true;
    it.content = Content::kResult;
    it.bound = 0;
    const bool moved = call.op == ReduceOp::kMin || call.op == ReduceOp::kMax;
    if (!IsReducibleFloat(array(a).dtype)) it.content = Content::kBits;
    if (call.scale != 1 || from.content == Content::kResult) return;
    if (moved) it.content = from.content, it.bound = from.bound;
    if (call.op == ReduceOp::kSum && from.content != Content::kWild) {
      it.content = Content::kSmall;
      it.bound = from.bound * size(array(a).group);
    }
  }

  bool Taken(int a) {
    return std::any_of(taken_.begin(), taken_.end(), [&](int it) { return Root(it) == Root(a); });
  }

  // Arrays of the group that could be summed: dense, of one shape, each rank's in its own arena.
  std::vector<int> Summable(int g) {
    std::vector<int> found;
    for (int a = 0; a < static_cast<int>(program_.arrays.size()); ++a) {
      const Array& it = array(a);
      if (it.group != g || !IsReducible(it.dtype) || Taken(a) || state(a).open) continue;
      if (it.alias >= 0 || state(Root(a)).open) continue;
      const bool fits = std::all_of(it.places.begin(), it.places.end(), [&](const Place& place) {
        return place.arena >= 0 && place.shape == it.places[0].shape &&
               place.pitch == place.shape.columns() * SizeOf(it.dtype);
      });
      if (fits) found.push_back(a);
    }
    return found;
  }

  Call NewReduction(int g) {
    Call call{.kind = OpKind::kAllReduce};
    const std::vector<int> found = options_.wrong ? std::vector<int>() : Summable(g);
    if (!found.empty() && !random_.OneIn(3)) {
      call.input = random_.Pick(found);
    } else {
      const Shape shape = arenas_.NewShape(random_.Below(4));
      call.input =
          NewArray(g, random_.Pick(ReducibleTypes()), std::vector<Shape>(At(size(g)), shape), true);
    }
    const DType dtype = array(call.input).dtype;
    call.op = static_cast<ReduceOp>(random_.Below(IsReducibleFloat(dtype) ? 5 : 4));
    call.shared_output = !options_.wrong && random_.OneIn(8);
    if (IsReducibleFloat(dtype) && random_.OneIn(5)) {
      call.scale = options_.folds_in_rank_order ? 0.3 : 0.5;
      // Over NCCL that needs a pass over each input, and there is no room for its result.
      if (!options_.folds_in_rank_order) call.shared_output = false;
    }
    const Shape shape = array(call.input).places[0].shape;
    if (!Allows(call.input, call)) Fill(call.input, ContentFor(dtype, call));
    taken_.push_back(call.input);
    call.output = call.input;
    if (call.shared_output) {
      call.output = NewShared(g, dtype, shape, true);
    } else if (random_.OneIn(2)) {
      call.output = OutputLike(g, call.input);
    }
    if (options_.wrong && call.output != call.input) Fill(call.output, Content::kBits);
    return call;
  }

  // One that is there already, or a new one.
  int OutputLike(int g, int input) {
    const Array like = array(input);
    for (const int a : options_.wrong ? std::vector<int>() : Summable(g)) {
      const bool same =
          array(a).dtype == like.dtype && array(a).places[0].shape == like.places[0].shape;
      if (same && random_.OneIn(2)) return a;
    }
    return NewArray(g, like.dtype, std::vector<Shape>(At(size(g)), like.places[0].shape), true);
  }

  Call NewGather(int g) {
    Call call{.kind = random_.OneIn(2) ? OpKind::kGather : OpKind::kAllGather};
    const int dims = 1 + random_.Below(4);
    const Shape base = arenas_.NewShape(dims);
    const int dim = random_.Below(dims);
    call.dim = random_.OneIn(2) ? dim : dim - dims;
    call.root = random_.Below(size(g));
    const DType dtype = random_.Pick(AllTypes());
    std::vector<Shape> shapes;
    int64_t joined = 0;
    const bool even = random_.OneIn(3);
    int64_t extent = arenas_.NewExtent(dims);
    for (int m = 0; m < size(g); ++m) {
      if (m > 0 && !even) extent = arenas_.NewExtent(dims);
      shapes.push_back(base.With(dim, extent));
      joined += extent;
    }
    const Shape full = base.With(dim, joined);
    call.shared_output = !options_.wrong && call.kind == OpKind::kAllGather && random_.OneIn(5);
    if (call.shared_output) {
      call.output = NewShared(g, dtype, full, false);
    } else {
      std::vector<bool> wanted(At(size(g)), call.kind == OpKind::kAllGather);
      wanted[At(call.root)] = true;
      const std::vector<Shape> same(At(size(g)), full);
      call.output = Add(arenas_.NewArray(g, group(g), dtype, same, false, wanted), false);
    }
    const bool has_slots = dim == dims - 1 || full.Product(0, dim) <= 1;
    if (!options_.wrong && has_slots && random_.OneIn(3)) {
      call.input = NewSlots(call, dim, shapes);
    } else {
      call.input = NewArray(g, dtype, shapes, false);
    }
    // Now and then numbers, which an AllReduce may take next.
    Fill(call.input,
         IsReducibleFloat(dtype) && random_.OneIn(2) ? Content::kSmall : Content::kBits);
    if (options_.wrong) Fill(call.output, Content::kBits);
    taken_.push_back(call.input);
    return call;
  }

  // Open where a shard lies in another rank's memory.
  int NewSlots(const Call& call, int dim, const std::vector<Shape>& shapes) {
    const std::vector<int>& ranks = group(array(call.output).group);
    Array made = arenas_.NewSlots(array(call.output), call.output, ranks, call, dim, shapes);
    bool open = array(call.output).shared;
    for (size_t m = 0; m < ranks.size(); ++m) open = open || made.places[m].arena != ranks[m];
    if (open) state(call.output).open = true;
    return Add(std::move(made), open);
  }

  void AddCalls() {
    const int g = in_graph_ ? graph_group_ : random_.Below(3);
    Step step{.kind = StepKind::kCall, .group = g};
    const int draw = random_.Below(20);
    step.form = draw < 11   ? Form::kPost
                : draw < 15 ? Form::kStart
                : draw < 18 ? Form::kBatch
                            : Form::kStartBatch;
    const bool batch = step.form == Form::kBatch || step.form == Form::kStartBatch;
    taken_.clear();
    for (int i = batch ? 1 + random_.Below(4) : 1; i > 0; --i) {
      const Call call = random_.Below(5) < 3 ? NewReduction(g) : NewGather(g);
      taken_.push_back(call.output);
      step.calls.push_back(call);
    }
    for (const Call& call : step.calls) {
      BeforeRead(call.input);
      BeforeWriteByCall(call);
    }
    if (!in_graph_ && !options_.wrong && random_.OneIn(10)) {
      Add({.kind = StepKind::kWrong, .group = g, .odd = random_.Below(size(g))});
    }
    const bool started = step.form == Form::kStart || step.form == Form::kStartBatch;
    const int at = Add(step);
    for (const Call& call : step.calls) AfterCall(call, started ? at : -1);
  }

  // As BeforeWrite; an output that is joined from its slots keeps what they hold.
  void BeforeWriteByCall(const Call& call) {
    const bool in_slots = array(call.input).alias == call.output;
    if (in_slots) {
      Check(call.output);
    } else {
      BeforeWrite(call.output, /*by_call=*/true);
    }
  }

  void AfterCall(const Call& call, int started) {
    const State from = state(call.input);
    if (call.kind == OpKind::kAllReduce) {
      AfterReduction(call.output, call, from);
    } else {
      State& it = state(call.output);
      it.known = true;
      it.content = from.content;
      it.bound = from.bound;
    }
    state(call.output).unchecked = true;
    state(Root(call.output)).dirty = true;
    state(call.input).busy = state(call.output).busy = started;
    Count(call);
    // At once, or who reads it too early is not seen.
    if (started < 0 && (options_.wrong || random_.OneIn(3))) Check(call.output);
  }

  void Count(const Call& call) {
    ++program_.operations;
    const Array& input = array(call.input);
    int64_t elements = 0;
    for (const Place& place : input.places) elements += place.shape.elements();
    if (elements > 0 && input.places.size() > 1) ++program_.moving;
  }

  // --- between operations ----------------------------------------------------------------------

  void AddSomethingElse() {
    if (options_.wrong) {
      if (random_.OneIn(3)) WaitForAll();
      return;
    }
    std::vector<int> usable;
    for (int a = 0; a < static_cast<int>(program_.arrays.size()); ++a) {
      const bool mine = !in_graph_ || array(a).group == graph_group_;
      if (mine && state(a).known && state(a).busy < 0 && !state(Root(a)).open) usable.push_back(a);
    }
    if (usable.empty()) return;
    const int a = random_.Pick(usable);
    switch (random_.Below(6)) {
      case 0:
        return Check(a);
      case 1:
        return Stir(a);
      case 2:
        return Copy(a);
      case 3:
        if (!in_graph_ && state(a).unchecked) WaitForAll();
        return;
      case 4:
        Add({.kind = StepKind::kAcquire, .group = array(a).group});
        return;
      default:
        return;
    }
  }

  void Stir(int a) {
    // A turned sign keeps numbers small, but makes zeros whose sign depends on the order.
    if (IsReducibleFloat(array(a).dtype) && !options_.folds_in_rank_order) return;
    BeforeWrite(a);
    Add({.kind = StepKind::kStir, .group = array(a).group, .array = a});
    state(a).unchecked = true;
  }

  // Into a new array of a group all of whose members have the source in memory of their own.
  void Copy(int source) {
    const int g = in_graph_ ? graph_group_ : random_.Below(3);
    const Array from = array(source);
    std::vector<Shape> shapes;
    for (const int rank : group(g)) {
      const int m = program_.position(from.group, rank);
      if (m < 0 || from.places[At(m)].arena != rank) return;
      shapes.push_back(from.places[At(m)].shape);
    }
    BeforeRead(source);
    const int target = NewArray(g, from.dtype, shapes, random_.OneIn(2));
    Add({.kind = StepKind::kCopy, .group = g, .array = target, .source = source});
    state(target).known = true;
    state(target).content = state(source).content;
    state(target).bound = state(source).bound;
    state(target).unchecked = true;
  }

  void BeginGraph() {
    WaitForAll();
    in_graph_ = true;
    graph_group_ = random_.Below(3);
    program_.graph_begin = here();
  }
  void EndGraph() {
    WaitForAll();
    in_graph_ = false;
    program_.graph_end = here();
  }

  void Finish() {
    WaitForAll();
    for (int a = 0; a < static_cast<int>(program_.arrays.size()); ++a) Check(a);
  }

  const ProgramOptions& options_;
  Random random_;
  Arenas arenas_;
  Program program_;
  std::vector<State> states_;
  std::vector<int> taken_;  // by calls of the batch that is being drawn
  bool in_graph_ = false;
  int graph_group_ = 0;
};

}  // namespace

Program NewProgram(uint64_t seed, const ProgramOptions& options) {
  Program program = Generator(seed, options).Generate();
  if (options.wrong) AddWrong(program, seed);
  return program;
}

}  // namespace mp::test
