// The limit in one address space, and no peer: the ranks' memory and a thread for each core, which
// meet in a spinning barrier and share the work by slices.  No scheduler, no agreement, no ranks
// that come when they like; small operations are done by whoever comes last.
#include "measure.h"
#include "threads.h"

namespace {

using namespace peers;

constexpr size_t kAloneBytes = 16 << 10;
constexpr size_t kBlock = 2048;  // elements that stay in the first cache

class Local {
 public:
  Local(const Arguments& arguments, size_t bytes)
      : arguments_(arguments),
        shape_(ShapeOf(arguments, bytes)),
        threads_(std::min(arguments.ranks, static_cast<int>(std::thread::hardware_concurrency()))),
        group_(threads_),
        meeting_(threads_) {
    const auto ranks = static_cast<size_t>(arguments.ranks);
    const size_t results = arguments.op == "allreduce" ? 0 : arguments.op == "gather" ? 1 : ranks;
    for (size_t rank = 0; rank < ranks; ++rank) {
      inputs_.emplace_back(shape_.count(), static_cast<float>(rank + 1));
      if (rank < results) outputs_.emplace_back(shape_.count() * ranks);
    }
  }

  bool Measure(size_t bytes) {
    bool goes_on = true;
    OnThreads(threads_, [&](int thread) {
      Operate(thread);
      group_.Barrier();
      if (thread == 0) Check();
      group_.Barrier();
      if (!Time(arguments_, group_, thread, bytes, [&] { Operate(thread); })) goes_on = false;
    });
    return goes_on;
  }

 private:
  void Operate(int thread) {
    const bool reduces = arguments_.op == "allreduce";
    const size_t units = reduces ? shape_.count() : shape_.rows;
    const auto run = [&](size_t from, size_t to) { reduces ? Reduce(from, to) : Join(from, to); };
    if (shape_.count() * sizeof(float) * inputs_.size() < kAloneBytes) {
      return meeting_.Meet([&] { run(0, units); });
    }
    const auto slice = [&](int i) {
      return units * static_cast<size_t>(i) / static_cast<size_t>(threads_);
    };
    meeting_.Meet([] {});
    run(slice(thread), slice(thread + 1));
    meeting_.Meet([] {});
  }

  void Reduce(size_t from, size_t to) {
    float sums[kBlock];
    for (; from < to; from += kBlock) {
      const size_t count = std::min(kBlock, to - from);
      std::memcpy(sums, &inputs_[0][from], count * sizeof(float));
      for (size_t rank = 1; rank < inputs_.size(); ++rank) {
        const float* other = &inputs_[rank][from];
        for (size_t i = 0; i < count; ++i) sums[i] += other[i];
      }
      for (std::vector<float>& input : inputs_) {
        std::memcpy(&input[from], sums, count * sizeof(float));
      }
    }
  }

  void Join(size_t from, size_t to) {
    const size_t ranks = inputs_.size(), width = shape_.columns;
    for (std::vector<float>& output : outputs_) {
      for (size_t row = from; row < to; ++row) {
        for (size_t rank = 0; rank < ranks; ++rank) {
          std::memcpy(&output[(row * ranks + rank) * width], &inputs_[rank][row * width],
                      width * sizeof(float));
        }
      }
    }
  }

  void Check() {
    for (const std::vector<float>& output : outputs_) {
      CheckJoined(output.data(), shape_, arguments_.ranks);
    }
    if (arguments_.op != "allreduce") return;
    for (std::vector<float>& input : inputs_) {
      CheckAll(input.data(), input.size(), SumOf(arguments_.ranks));
      std::fill(input.begin(), input.end(), 0.0f);
    }
  }

  const Arguments& arguments_;
  const Shape shape_;
  const int threads_;
  ThreadGroup group_;
  Meeting meeting_;
  std::vector<std::vector<float>> inputs_, outputs_;
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  for (const size_t bytes : arguments.sizes) {
    if (!Local(arguments, bytes).Measure(bytes)) break;
  }
}
