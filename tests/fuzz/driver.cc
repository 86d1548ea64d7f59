// Gives a reader inputs that are seeds with some of their bytes changed, and looks that it neither
// crashes nor hangs, nor allocates more than in proportion to the input.  Inputs for which the
// reader finds new words are changed further.
//
//   bazel test --test_env=MP_FUZZ_SECONDS=600 --test_timeout=86400 //tests/fuzz:npy_test
//   bazel test --test_env=MP_FUZZ_SEED=17 ...       # other inputs
//
// MP_FUZZ_FILE=path reads that one file and prints what the reader says.

#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "mp/base/sync.h"
#include "tests/fuzz/reader.h"
#include "tests/support/numbers.h"

namespace mp::fuzz {
namespace {

constexpr int64_t kInputs = 20'000;        // of a test
constexpr unsigned kLongest = 20;          // seconds, for one input
constexpr size_t kMostKept = 2000;         // inputs to be changed further
constexpr size_t kLargestInput = 1 << 20;  // bytes
// What may be allocated at a time: a JSON value of two bytes takes up to two hundred.
constexpr size_t kBase = 1 << 20, kPerByte = 300;

// The memory that `new` has given out; not by tests/support/allocations.h, which takes malloc's
// place, and sanitizers need that for themselves.
size_t live = 0, most_live = 0;
std::string present;  // the input under way

void SaveAndAbort(const char* what) {
  char path[] = "/tmp/mp_fuzz_input_XXXXXX";
  const int file = mkstemp(path);
  const bool saved = file >= 0 && write(file, present.data(), present.size()) ==
                                      static_cast<ssize_t>(present.size());
  std::fprintf(stderr, "%s: %zu bytes, %s %s\n", what, present.size(),
               saved ? "kept in" : "could not be kept in", path);
  signal(SIGABRT, SIG_DFL);
  std::abort();
}

void OnSignal(int number) {
  SaveAndAbort(number == SIGALRM   ? "does not end"
               : number == SIGSEGV ? "a fault"
                                   : "has ended the process");
}

// A fault may be a stack that is full.
void CatchSignals() {
  static char stack[1 << 16];
  stack_t alternative{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) {
    sigaction(number, &action, nullptr);
  }
}

// --- changing inputs -----------------------------------------------------------------------------

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed), pieces_(Pieces()) {}

  std::string Change(const std::vector<std::string>& inputs) {
    std::string input = random_.Pick(inputs);
    for (int i = 1 + random_.Below(5); i > 0; --i) ChangeOnce(input, random_.Pick(inputs));
    if (input.size() > kLargestInput) input.resize(kLargestInput);
    return input;
  }

 private:
  size_t Place(const std::string& input) {
    return static_cast<size_t>(random_.Below(static_cast<int>(input.size()) + 1));
  }

  void ChangeOnce(std::string& input, const std::string& other) {
    const size_t at = Place(input);
    const size_t length = static_cast<size_t>(random_.Below(random_.OneIn(4) ? 100 : 6));
    switch (random_.Below(11)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(random_.Bits());
        return;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ 1 << random_.Below(8));
        return;
      case 2:
        input.erase(at, length);
        return;
      case 3:
        input.insert(at, input.substr(std::min(Place(input), input.size()), length));
        return;
      case 4:
        input.resize(at);
        return;
      case 5:
        input = input.substr(0, at) + other.substr(std::min(Place(other), other.size()));
        return;
      case 6:
      case 7:
        return ChangeNumber(input, at);
      case 8:
        return Nest(input, at);
      default:
        input.insert(at, random_.Pick(pieces_));
        return;
    }
  }

  // The next number of the text, or eight bytes.
  void ChangeNumber(std::string& input, size_t at) {
    static const std::vector<std::string> numbers = {"0",
                                                     "1",
                                                     "-1",
                                                     "7",
                                                     "65536",
                                                     "1048576",
                                                     "2147483647",
                                                     "2147483648",
                                                     "4294967295",
                                                     "9223372036854775807",
                                                     "9223372036854775808",
                                                     "18446744073709551615",
                                                     "99999999999999999999",
                                                     "1e30",
                                                     "00",
                                                     "1.5"};
    std::string number = random_.Pick(numbers);
    if (random_.OneIn(8)) {
      const size_t depth = random_.OneIn(20) ? 200'000 : static_cast<size_t>(random_.Below(40));
      number = std::string(depth, '[') + std::string(depth, ']');
    } else if (random_.OneIn(4)) {
      uint64_t bits = 0;
      static_cast<void>(absl::SimpleAtoi(number, &bits));
      const size_t size = std::min<size_t>(input.size() - std::min(at, input.size()), 8);
      std::memcpy(input.data() + at, &bits, size);
      return;
    }
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    while (at < input.size() && !is_digit(input[at])) ++at;
    size_t end = at;
    while (end < input.size() && is_digit(input[end])) ++end;
    input.replace(at, end - at, number);
  }

  // Many of one thing within each other, or side by side.
  void Nest(std::string& input, size_t at) {
    static const std::vector<std::string> openings = {"[", "{\"a\":", "(", "0,", "\"a\":", " "};
    const int depth = random_.OneIn(30) ? 200'000 : random_.Below(40);
    const std::string& opening = random_.Pick(openings);
    std::string nested;
    for (int i = 0; i < depth && nested.size() < kLargestInput; ++i) nested += opening;
    if (opening[0] == '[' && random_.OneIn(2)) nested.append(nested.size(), ']');
    input.insert(at, nested);
  }

  test::Random random_;
  const std::vector<std::string> pieces_;
};

// The beginning of a message, up to the second thing that it quotes.
std::string Words(const std::string& message) {
  constexpr size_t kBeginning = 50;
  std::string words;
  int quotes = 0;
  for (const char c : message) {
    if (c == '"' || c == '\'') ++quotes;
    if (quotes == 3 || words.size() == kBeginning) break;
    if (quotes != 1 && std::isalpha(static_cast<unsigned char>(c)) != 0) words += c;
  }
  return words;
}

// What the reader says of an input, within its bounds.
std::string ReadOne(std::string input) {
  present = std::move(input);
  const size_t before = live;
  most_live = live;
  alarm(kLongest);
  std::string told = Read(present);
  alarm(0);
  if (most_live - before > kBase + kPerByte * present.size()) {
    std::fprintf(stderr, "%zu bytes at a time for an input of %zu\n", most_live - before,
                 present.size());
    SaveAndAbort("takes too much memory");
  }
  return told;
}

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) {
    std::fprintf(stderr, "%s is no number\n", name);
    std::exit(2);
  }
  return value;
}

int ReadFile(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(stream), {});
  std::printf("%s\n", ReadOne(std::move(bytes)).c_str());
  return 0;
}

int Run() {
  const int64_t seconds = FromEnvironment("MP_FUZZ_SECONDS", -1);
  Mutator mutator(static_cast<uint64_t>(FromEnvironment("MP_FUZZ_SEED", 1)));
  std::vector<std::string> inputs = Seeds();
  std::set<std::string> seen;
  for (const std::string& seed : inputs) {
    const std::string told = ReadOne(seed);
    seen.insert(Words(told));
    if (told.find("OK") != std::string::npos) continue;
    std::fprintf(stderr, "a seed is not read: %s\n", told.c_str());
    return 1;
  }
  const absl::Duration begin = sync::Clock::Steady().Now();
  int64_t count = 0;
  for (;; ++count) {
    const absl::Duration spent = sync::Clock::Steady().Now() - begin;
    if (seconds >= 0 ? spent > absl::Seconds(seconds) : count == kInputs) break;
    std::string input = mutator.Change(inputs);
    std::string copy = input;
    const bool is_new = seen.insert(Words(ReadOne(std::move(copy)))).second;
    if (is_new && input.size() < 4096 && inputs.size() < kMostKept)
      inputs.push_back(std::move(input));
  }
  std::printf("%" PRId64 " inputs, %zu of them kept to be changed further\n", count, inputs.size());
  return 0;
}

}  // namespace

void* Count(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  live += malloc_usable_size(memory);
  most_live = std::max(most_live, live);
  return memory;
}
void Discount(void* memory) {
  if (memory != nullptr) live -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace mp::fuzz

void* operator new(size_t size) { return mp::fuzz::Count(std::malloc(size)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(size);
  return memory == nullptr ? nullptr : mp::fuzz::Count(memory);
}
void* operator new(size_t size, std::align_val_t alignment) {
  void* memory = nullptr;
  if (posix_memalign(&memory, static_cast<size_t>(alignment), size) != 0) memory = nullptr;
  return mp::fuzz::Count(memory);
}
void operator delete(void* memory) noexcept { mp::fuzz::Discount(memory); }
void operator delete(void* memory, size_t) noexcept { mp::fuzz::Discount(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { mp::fuzz::Discount(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { mp::fuzz::Discount(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  mp::fuzz::Discount(memory);
}

TEST(Reader, TakesChangedInputsWithinBounds) { EXPECT_EQ(mp::fuzz::Run(), 0); }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  mp::fuzz::CatchSignals();
  const char* path = std::getenv("MP_FUZZ_FILE");
  return path != nullptr ? mp::fuzz::ReadFile(path) : RUN_ALL_TESTS();
}
