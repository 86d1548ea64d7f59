// A random SPMD program: which tensors each rank has, and what all ranks do with them, step by
// step. Plain data, a function of its seed: Predict (predict.h) says what it must give, and Session
// (session.h) lets ranks do it.
//
//   Program program = NewProgram(17, {.ranks = 3});
//   std::puts(program.ToString().c_str());
//
// The steps are the body of a loop.  In a round of it every tensor is filled before it is read,
// with numbers that are those of the round before only `variants` rounds later, so that a result
// that was left over is seen.
#ifndef MP_TESTS_RANDOM_PROGRAM_H_
#define MP_TESTS_RANDOM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "mp/operation.h"
#include "mp/tensor.h"
#include "tests/support/numbers.h"

namespace mp::test {

// An int as an index.
inline size_t At(int i) { return static_cast<size_t>(i); }

// A tensor of one rank: rows in the arena of a rank, which is its own but for outputs that are
// shared and shards that lie in their slot of the root's output.
struct Place {
  int arena = -1;  // -1: there is none
  int64_t offset = 0;
  int64_t pitch = 0;
  Shape shape;
};

// What the elements may be used for: sums, products, minima of floats are only asked of numbers
// that all orders of folding agree on, or of a backend that folds in rank order.
enum class Content {
  kBits,     // any; for floats only moved
  kSmall,    // whole numbers up to Array::bound
  kFactors,  // 1, 2, 4 and negative ones
  kWild,     // finite floats of all sizes, whose sum depends on the order
  kResult,   // numbers that came from one of these; minima and maxima only
};

// One tensor on each member of a group.
struct Array {
  int group = 0;
  DType dtype = DType::kF32;
  std::vector<Place> places;  // by position in the group
  bool shared = false;        // all places are one
  int alias = -1;             // the array of which this one is the slots
};

struct Call {
  OpKind kind = OpKind::kAllReduce;
  int input = 0, output = 0;  // arrays; the same: in place
  ReduceOp op = ReduceOp::kSum;
  double scale = 1;
  int root = 0;
  int dim = -1;
  bool shared_output = false;
};

enum class Form { kPost, kStart, kBatch, kStartBatch };
enum class StepKind {
  kFill,     // writes numbers into an array
  kStir,     // changes every element of it
  kCopy,     // copies what each rank has of `source`
  kCheck,    // compares
  kCall,     // one operation of the group, or a batch
  kAcquire,  // AcquireSlot
  kWait,     // for the Work of step `started`
  kWrong,    // a call that is InvalidArgument, on the member `odd`
};

struct Step {
  StepKind kind = StepKind::kFill;
  int group = 0;
  int array = 0, source = 0;
  Content content = Content::kBits;
  uint64_t seed = 0;
  Form form = Form::kPost;
  std::vector<Call> calls;
  int started = -1;
  bool on_host = false;  // kWait: the thread waits, not the stream
  int odd = 0;

  // By variant and member, what Predict has found: what a kFill writes and a kCheck must see, and
  // what a kCheck of an operation that has not run may see instead.
  std::vector<std::vector<Bytes>> bytes;
  std::vector<std::vector<Bytes>> before;
};

// What goes wrong, on one rank, instead of step `step`.
enum class Wrong {
  kNothing,
  kMismatch,  // calls `call` instead
  kAcquires,  // calls AcquireSlot instead
  kReturns,   // its function returns OK
  kFails,     // its function returns an error
  kThrows,
  kStaysAway,  // until another rank has been told
  kCancels,    // cancels the Region and goes on
  kCloses,
};
inline constexpr int kWrongCount = 9;
const char* Name(Wrong wrong);

// What is called by the odd rank of a mismatch.
struct OddCall {
  Call call;
  DType dtype = DType::kF32;
  bool fewer = false;  // one less along the first dimension that is not joined
};

struct Program {
  uint64_t seed = 0;
  int ranks = 0;
  std::vector<std::vector<int>> groups;  // ranks, in the order of the Region
  std::vector<Array> arrays;
  std::vector<Step> steps;
  int variants = 1;
  int64_t arena_bytes = 0;
  // These steps, of one group, are captured in the first round and launched in every one.
  int graph_begin = 0, graph_end = 0;

  Wrong wrong = Wrong::kNothing;
  int wrong_step = -1, wrong_rank = -1;
  size_t wrong_call = 0;  // of the step's calls
  OddCall odd;

  // By rank, what Predict has found: the arena when `variants` rounds are over.
  std::vector<Bytes> arenas;

  // Operations of a round: all; and those that move data among at least two ranks.
  int64_t operations = 0;
  int64_t moving = 0;

  int position(int group, int rank) const;  // -1: no member
  std::string ToString() const;
};

struct ProgramOptions {
  int ranks = 2;
  int steps = 20;  // calls and batches
  int variants = 1;
  // Small tensors and groups of at least two, and threads that seldom wait, so that many operations
  // fit into a second; otherwise some tensors of up to 100,000 elements.
  bool is_long = false;
  bool graphs = true;
  bool wrong = false;
  // What of the backend matters.
  bool folds_in_rank_order = true;
  bool reduces_at_any_byte = true;
};

Program NewProgram(uint64_t seed, const ProgramOptions& options);

// Lets something go wrong in a program that was drawn with `wrong`: its operations then depend on
// nothing but what was filled in, and are checked one by one.
void AddWrong(Program& program, uint64_t seed);

}  // namespace mp::test

#endif  // MP_TESTS_RANDOM_PROGRAM_H_
