#include "tests/explore/strategy.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace mp::explore {
namespace {

constexpr char kPath[] = "path:";
constexpr char kSeed[] = "seed:";

uint32_t Bit(int thread) { return uint32_t{1} << thread; }
int First(uint32_t threads) { return std::countr_zero(threads); }

// The tree of all choices, depth first.  A thread that has been tried at a node sleeps in the
// branches behind it until somebody does what its own operation depends on: until then its turn
// would lead to a run that was there already.
class Exhaustive : public Strategy {
 public:
  explicit Exhaustive(const ExhaustiveOptions& options) : options_(options) {}
  // One run.
  Exhaustive(const ExhaustiveOptions& options, const std::vector<int>& path)
      : options_(options), replays_(true) {
    for (const int chosen : path) nodes_.push_back(Node{.chosen = chosen});
  }

  bool Begin() override {
    if (over_) return false;
    depth_ = 0;
    sleeping_ = 0;
    redundant_ = false;
    stale_ = early_ = 0;
    return true;
  }

  int Pick(const Situation& situation) override {
    const uint32_t all = situation.runnable | situation.yielded;
    const uint32_t counted = all & situation.counted;
    int chosen;
    if (counted == 0 || redundant_) {
      chosen = FixedPolicy(situation);
    } else if ((counted & (counted - 1)) == 0) {
      chosen = First(counted);
      redundant_ = (sleeping_ & counted) != 0;
    } else {
      chosen = AtNode(counted);
      if (chosen < 0) {
        redundant_ = true;
        chosen = FixedPolicy(situation);
      }
    }
    for (uint32_t left = sleeping_; left != 0; left &= left - 1) {
      const int thread = First(left);
      if (thread == chosen || Dependent(situation.ops[thread], situation.ops[chosen])) {
        sleeping_ &= ~Bit(thread);
      }
    }
    return chosen;
  }

  int Choose(int count, Choice choice, bool counted) override {
    int& used = choice == Choice::kStale ? stale_ : early_;
    const int most = choice == Choice::kStale ? options_.stale : options_.early;
    if (!counted || redundant_ || used >= most) return 0;
    if (depth_ == nodes_.size()) {
      if (replays_) return 0;
      nodes_.push_back(Node{.count = count});
    }
    const int chosen = nodes_[depth_++].chosen;
    used += chosen != 0;
    return chosen;
  }

  // To the last node that has a branch left.
  void End() override {
    while (!nodes_.empty() && !replays_) {
      Node& node = nodes_.back();
      if (node.threads == 0) {
        if (++node.chosen < node.count) return;
      } else {
        node.done |= Bit(node.chosen);
        const uint32_t left = node.threads & ~node.done & ~node.sleeping;
        if (left != 0) {
          node.chosen = First(left);
          return;
        }
      }
      nodes_.pop_back();
    }
    over_ = true;
  }

  std::string Token() const override {
    std::string token =
        kPath + std::to_string(options_.stale) + "." + std::to_string(options_.early);
    for (size_t i = 0; i < depth_; ++i) token += "." + std::to_string(nodes_[i].chosen);
    return token;
  }
  bool redundant() const override { return redundant_; }
  bool complete() const override { return over_; }

 private:
  struct Node {
    int chosen = 0;
    int count = 0;         // of values
    uint32_t threads = 0;  // that could go on; 0 for a choice of a value
    uint32_t sleeping = 0, done = 0;
  };

  int AtNode(uint32_t counted) {
    if (depth_ == nodes_.size()) {
      const uint32_t awake = counted & ~sleeping_;
      if (awake == 0 || replays_) return -1;
      nodes_.push_back(Node{.chosen = First(awake), .threads = counted, .sleeping = sleeping_});
    }
    const Node& node = nodes_[depth_++];
    if (!replays_ && node.threads != counted) {
      std::fprintf(stderr, "explore: the run is no function of its choices\n");
      std::abort();
    }
    if (options_.reduce) sleeping_ |= node.done;
    return node.chosen;
  }

  const ExhaustiveOptions options_;
  const bool replays_ = false;
  std::vector<Node> nodes_;
  size_t depth_ = 0;
  uint32_t sleeping_ = 0;
  bool redundant_ = false;
  bool over_ = false;
  int stale_ = 0, early_ = 0;
};

class Random : public Strategy {
 public:
  Random(uint64_t runs, uint64_t first_seed) : seed_(first_seed - 1), left_(runs) {}

  bool Begin() override {
    if (left_ == 0) return false;
    --left_;
    random_.seed(++seed_);
    // A few changes of priority, somewhere in a short or a long run.
    const uint64_t length = uint64_t{16} << Below(8);
    walks_ = Below(4) == 0;
    changes_.clear();
    for (uint64_t i = Below(5); i > 0; --i) changes_.push_back(Below(length));
    for (int64_t& priority : priorities_) priority = 1 + static_cast<int64_t>(Below(1 << 20));
    lowest_ = 0;
    stale_ = Rate();
    early_ = Rate();
    point_ = 0;
    return true;
  }

  int Pick(const Situation& situation) override {
    ++point_;
    const uint32_t all = situation.runnable | situation.yielded;
    if (walks_) {
      uint32_t left = situation.runnable == 0 || Below(8) == 0 ? all : situation.runnable;
      for (uint64_t i = Below(static_cast<uint64_t>(std::popcount(left))); i > 0; --i) {
        left &= left - 1;
      }
      return First(left);
    }
    int best = Highest(all);
    for (const uint64_t change : changes_) {
      if (change != point_) continue;
      Lower(best);
      best = Highest(all);
    }
    // Whoever yields lets all others go first.
    while ((situation.yielded & Bit(best)) != 0 && !lowered_.test(best)) {
      Lower(best);
      lowered_.set(best);
      best = Highest(all);
    }
    lowered_.clear(best);
    return best;
  }

  int Choose(int count, Choice choice, bool) override {
    const uint64_t rate = choice == Choice::kStale ? stale_ : early_;
    if (rate == 0 || Below(rate) != 0) return 0;
    return static_cast<int>(Below(static_cast<uint64_t>(count)));
  }

  void End() override {}
  std::string Token() const override { return kSeed + std::to_string(seed_); }

 private:
  struct Bits {
    uint32_t bits = 0;
    bool test(int i) const { return (bits & Bit(i)) != 0; }
    void set(int i) { bits |= Bit(i); }
    void clear(int i) { bits &= ~Bit(i); }
  };

  uint64_t Below(uint64_t count) { return random_() % count; }
  // One in so many; 0 for never.
  uint64_t Rate() {
    constexpr uint64_t kRates[] = {0, 1, 3, 16};
    return kRates[Below(4)];
  }
  int Highest(uint32_t threads) const {
    int best = First(threads);
    for (; threads != 0; threads &= threads - 1) {
      if (priorities_[First(threads)] > priorities_[best]) best = First(threads);
    }
    return best;
  }
  void Lower(int thread) { priorities_[thread] = --lowest_; }

  uint64_t seed_, left_;
  std::mt19937_64 random_;
  bool walks_ = false;
  std::vector<uint64_t> changes_;
  int64_t priorities_[kMaxThreads] = {};
  int64_t lowest_ = 0;
  Bits lowered_;
  uint64_t stale_ = 0, early_ = 0;
  uint64_t point_ = 0;
};

}  // namespace

int FixedPolicy(const Situation& situation) {
  return situation.runnable != 0 ? First(situation.runnable) : situation.next_yielded;
}

std::unique_ptr<Strategy> NewExhaustive(const ExhaustiveOptions& options) {
  return std::make_unique<Exhaustive>(options);
}

std::unique_ptr<Strategy> NewRandom(uint64_t runs, uint64_t first_seed) {
  return std::make_unique<Random>(runs, first_seed);
}

std::unique_ptr<Strategy> NewReplay(const std::string& token) {
  if (token.starts_with(kSeed)) {
    return NewRandom(1, std::strtoull(token.c_str() + sizeof kSeed - 1, nullptr, 10));
  }
  std::vector<int> numbers;
  const char* at = token.c_str() + (token.starts_with(kPath) ? sizeof kPath - 1 : token.size());
  while (*at != '\0') {
    char* end;
    numbers.push_back(static_cast<int>(std::strtol(at, &end, 10)));
    if (end == at) break;
    at = *end == '.' ? end + 1 : end;
  }
  if (numbers.size() < 2) {
    std::fprintf(stderr, "explore: \"%s\" names no run\n", token.c_str());
    std::abort();
  }
  const ExhaustiveOptions options = {.stale = numbers[0], .early = numbers[1]};
  return std::make_unique<Exhaustive>(options, std::vector(numbers.begin() + 2, numbers.end()));
}

}  // namespace mp::explore
