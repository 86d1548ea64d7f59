// ERR-5: where the k-th allocation, or the k-th thread, of NewBackend and World::Create fails, the
// caller is told, nothing is left behind, and the next try works.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "mp/base/sync.h"
#include "mp/host/backend.h"
#include "mp/world.h"
#include "tests/support/status_matchers.h"

namespace {

// Count down to the one that fails, on one thread; 0 where none does.
constinit mp::sync::Atomic<uint64_t> counting_thread{0};
int allocations_to_failure = 0;
int threads_to_failure = 0;

bool Fails(int& to_failure) {
  return counting_thread.load() == mp::sync::ThisThread() && to_failure > 0 && --to_failure == 0;
}

}  // namespace

void* operator new(size_t bytes) {
  if (Fails(allocations_to_failure)) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  if (Fails(threads_to_failure)) return EAGAIN;
  static const auto next =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, body, argument);
}

namespace mp::host {
namespace {

using ::mp::test::KindIs;
using ::testing::HasSubstr;

int Threads() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// A joined thread stays in /proc for a moment.
bool ThreadsAre(int count) {
  for (int i = 0; i < 100'000 && Threads() != count; ++i) sync::Yield();
  return Threads() == count;
}

const Options kOptions = {.devices = 4, .threads = 2};

absl::StatusOr<std::unique_ptr<World>> Make(const std::shared_ptr<Backend>& backend) {
  return World::Create(backend, {.mesh = Mesh::Create({.data = 2, .tensor = 2}).value()});
}

void ExpectWorks(World& world) {
  const absl::Status ran = world.Run([](Rank& rank) -> absl::Status {
    float x[3] = {1, 2, static_cast<float>(rank.id())};
    MP_RETURN_IF_ERROR(rank.region().AllReduce(TensorView(x, DType::kF32, {3})));
    MP_RETURN_IF_ERROR(rank.stream().Synchronize());
    EXPECT_EQ(x[0], 4);
    EXPECT_EQ(x[1], 8);
    EXPECT_EQ(x[2], 6);
    return absl::OkStatus();
  });
  EXPECT_OK(ran);
}

// Lets `make` fail at every k, until it does not come to that; returns how often it has failed.
template <typename Make>
int FailAtEach(int& to_failure, Make make) {
  int failures = 0;
  const int threads = Threads();
  counting_thread = sync::ThisThread();
  for (int k = 1;; ++k) {
    to_failure = k;
    {
      const auto made = make();
      const bool reached = to_failure == 0;
      to_failure = 0;
      if (!reached) {
        EXPECT_OK(made);
        return failures;
      }
      EXPECT_THAT(made, KindIs(ErrorKind::kDeviceError)) << "at " << k;
      ++failures;
    }
    EXPECT_TRUE(ThreadsAre(threads)) << "at " << k;
    if (::testing::Test::HasFailure()) return failures;
  }
}

TEST(Err5, AThreadOfTheWorldFails) {
  const std::shared_ptr<Backend> backend = NewBackend(kOptions).value();
  const std::unique_ptr<World> beside = Make(backend).value();
  EXPECT_EQ(FailAtEach(threads_to_failure, [&] { return Make(backend); }), 4);
  ExpectWorks(*Make(backend).value());
  ExpectWorks(*beside);
}

TEST(Err5, AThreadOfTheBackendFails) {
  EXPECT_EQ(FailAtEach(threads_to_failure, [] { return NewBackend(kOptions); }), 2);
}

TEST(Err5, AnAllocationOfTheWorldFails) {
  const std::shared_ptr<Backend> backend = NewBackend(kOptions).value();
  const std::unique_ptr<World> beside = Make(backend).value();
  const int failures = FailAtEach(allocations_to_failure, [&] { return Make(backend); });
  EXPECT_GT(failures, 50);
  ExpectWorks(*Make(backend).value());
  ExpectWorks(*beside);
}

TEST(Err5, AnAllocationOfTheBackendFails) {
  EXPECT_GT(FailAtEach(allocations_to_failure, [] { return NewBackend(kOptions); }), 5);
}

}  // namespace
}  // namespace mp::host
