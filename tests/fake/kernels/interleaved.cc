#include "tests/fake/kernels/interleaved.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fiber.h"

namespace mp::fake {
namespace {

constexpr size_t kMostResident = 3;  // blocks
constexpr size_t kSharedBytes = size_t{48} << 10;
constexpr uint64_t kYieldEvery = 16;  // loads and stores, on average

struct Thread {
  int number;
  std::unique_ptr<test::Fiber> fiber;  // null before it begins
};

// Fibers between two runs: stacks cost more than what runs on them.
class FreeFibers {
 public:
  static FreeFibers& All() {
    static auto* all = new FreeFibers;
    return *all;
  }

  std::unique_ptr<test::Fiber> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (fibers_.empty()) return std::make_unique<test::Fiber>();
    std::unique_ptr<test::Fiber> fiber = std::move(fibers_.back());
    fibers_.pop_back();
    return fiber;
  }
  void Give(std::unique_ptr<test::Fiber> fiber) {
    std::lock_guard<std::mutex> lock(mutex_);
    fibers_.push_back(std::move(fiber));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<test::Fiber>> fibers_;
};

}  // namespace

// The blocks that have started and not ended, and what their threads wait for.
class Schedule {
 public:
  Schedule(int blocks, int threads, uint64_t seed, const std::function<void(HostGrid&)>& body)
      : blocks_(blocks), threads_(threads), body_(body), random_(seed), waiting_(blocks) {
    std::iota(waiting_.begin(), waiting_.end(), 0);
    std::shuffle(waiting_.begin(), waiting_.end(), random_);
  }

  void Run() {
    while (!waiting_.empty() || !resident_.empty()) {
      if (!waiting_.empty() && resident_.size() < kMostResident &&
          (resident_.empty() || Choose(4) == 0)) {
        resident_.push_back(std::make_unique<Block>(waiting_.back(), threads_));
        waiting_.pop_back();
      }
      const size_t chosen = Choose(resident_.size());
      block_ = resident_[chosen].get();
      Advance();
      if (block_->ended == threads_) {
        resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(chosen));
      }
    }
  }

  void Barrier() {
    at_barrier_ = true;
    fiber_->Yield();
  }
  void Accessed() {
    if (Choose(kYieldEvery) == 0) fiber_->Yield();
  }
  void* shared() { return block_->shared.data(); }

  [[noreturn]] void Die(const std::string& why) const {
    std::fprintf(stderr, "kernel, block %d: %s\n", block_->number, why.c_str());
    std::abort();
  }

 private:
  struct Block {
    Block(int block, int threads) : number(block), shared(kSharedBytes, 0xA5) {
      for (int thread = 0; thread < threads; ++thread) ready.push_back({thread, nullptr});
    }
    int number;
    std::vector<Thread> ready;
    std::vector<Thread> at_barrier;
    int ended = 0;
    std::vector<unsigned char> shared;
  };

  size_t Choose(uint64_t bound) { return static_cast<size_t>(random_() % bound); }

  // Takes a thread of the block as far as it goes.
  void Advance() {
    std::vector<Thread>& ready = block_->ready;
    std::swap(ready[Choose(ready.size())], ready.back());
    Thread& thread = ready.back();
    if (thread.fiber == nullptr) Begin(thread);
    fiber_ = thread.fiber.get();
    at_barrier_ = false;
    fiber_->Resume();
    if (fiber_->done()) {
      FreeFibers::All().Give(std::move(thread.fiber));
      ++block_->ended;
      ready.pop_back();
    } else if (at_barrier_) {
      block_->at_barrier.push_back(std::move(thread));
      ready.pop_back();
    }
    if (ready.empty() && !block_->at_barrier.empty()) {
      if (block_->ended > 0) {
        Die("a barrier that " + std::to_string(block_->ended) + " of " + std::to_string(threads_) +
            " threads never reach");
      }
      ready.swap(block_->at_barrier);
    }
  }

  void Begin(Thread& thread) {
    thread.fiber = FreeFibers::All().Take();
    thread.fiber->Start([this, block = block_->number, number = thread.number] {
      HostGrid grid(*this, block, blocks_, number, threads_);
      body_(grid);
    });
  }

  const int blocks_;
  const int threads_;
  const std::function<void(HostGrid&)>& body_;
  std::mt19937_64 random_;
  std::vector<int> waiting_;  // blocks that have not started
  std::vector<std::unique_ptr<Block>> resident_;
  // What runs.
  Block* block_ = nullptr;
  test::Fiber* fiber_ = nullptr;
  bool at_barrier_ = false;
};

void HostGrid::Barrier() { schedule_.Barrier(); }

void HostGrid::Access(const void* data, size_t bytes, size_t alignment) {
  if (reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    schedule_.Die("thread " + std::to_string(thread_) + " reaches for " + std::to_string(bytes) +
                  " bytes at an address that is no multiple of " + std::to_string(alignment));
  }
  schedule_.Accessed();
}

void* HostGrid::SharedBytes(size_t bytes) {
  if (bytes > kSharedBytes) schedule_.Die("more shared memory than every GPU has");
  return schedule_.shared();
}

void RunInterleaved(int blocks, int threads, uint64_t seed,
                    const std::function<void(HostGrid&)>& body) {
  Schedule(blocks, threads, seed, body).Run();
}

}  // namespace mp::fake
