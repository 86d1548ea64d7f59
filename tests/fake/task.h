// What the streams of the fake machine run.
#ifndef MP_TESTS_FAKE_TASK_H_
#define MP_TESTS_FAKE_TASK_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mp::fake {

// What keeps a stream from going on: another stream, or a call of the program that has not been
// made (null).
struct Blocker {
  CUstream_st* stream;
  std::string why;
};

// One entry of a stream's queue.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::string Name() const = 0;
  virtual bool Ready() const { return true; }
  // Called when ready, and again until it returns true: it is done then.
  virtual bool Run() = 0;
  // Why it is not ready.
  virtual std::vector<Blocker> Blockers() const { return {}; }
  // Whether it needs a device besides its stream's.
  virtual bool RunsOn(int /*device*/) const { return false; }
};

// Makes the task that `stream` runs: at once, or for each launch of a graph.
using MakeTask = std::function<std::unique_ptr<Task>(CUstream_st* stream)>;

// A task that is always ready.
class Action final : public Task {
 public:
  Action(std::string name, std::function<void()> run)
      : name_(std::move(name)), run_(std::move(run)) {}
  std::string Name() const override { return name_; }
  bool Run() override { return run_(), true; }

 private:
  std::string name_;
  std::function<void()> run_;
};

}  // namespace mp::fake

#endif  // MP_TESTS_FAKE_TASK_H_
