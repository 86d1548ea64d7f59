#include "tests/support/system_calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "mp/base/sync.h"

#ifdef __x86_64__

// The one place whose calls the filter lets through: (number, six arguments) -> result.
extern "C" long MpLetThrough(long number, long a, long b, long c, long d, long e, long f);
extern "C" const char MpLetThroughEnd[];
asm(R"(
  .text
  .globl MpLetThrough, MpLetThroughEnd
  .type MpLetThrough, @function
MpLetThrough:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
MpLetThroughEnd:
  ret
)");

namespace mp::test {
namespace {

constinit sync::Atomic<int64_t> all{0}, waits{0}, wakes{0}, yields{0};

void OnCall(int, siginfo_t* info, void* context) {
  auto& r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  all.fetch_add(1, sync::kRelaxed);
  if (info->si_syscall == SYS_sched_yield) yields.fetch_add(1, sync::kRelaxed);
  if (info->si_syscall == SYS_futex) {
    const bool wakes_up = (r[REG_RSI] & FUTEX_CMD_MASK) == FUTEX_WAKE;
    (wakes_up ? wakes : waits).fetch_add(1, sync::kRelaxed);
  }
  r[REG_RAX] = MpLetThrough(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
                            r[REG_R8], r[REG_R9]);
}

// A thread that is being made has all signals blocked, and would be killed.
bool AllThreadsTakeSignals() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string word; status >> word;) {
      if (word != "SigBlk:") continue;
      uint64_t blocked = 0;
      status >> std::hex >> blocked;
      if ((blocked >> (SIGSYS - 1) & 1) != 0) return false;
      break;
    }
  }
  return true;
}

constexpr uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

bool CountSystemCalls() {
  while (!AllThreadsTakeSignals()) sync::Yield();
  struct sigaction action = {};
  action.sa_sigaction = OnCall;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  const auto end = reinterpret_cast<uint64_t>(MpLetThroughEnd);
  constexpr auto kNumber = static_cast<uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto kPlace = static_cast<uint32_t>(offsetof(seccomp_data, instruction_pointer));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kPlace),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, Low(end), 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kPlace + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, High(end), 5, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

SystemCalls SystemCallsSoFar() { return {all.load(), waits.load(), wakes.load(), yields.load()}; }

}  // namespace mp::test

#else

namespace mp::test {

bool CountSystemCalls() { return false; }
SystemCalls SystemCallsSoFar() { return {}; }

}  // namespace mp::test

#endif

namespace mp::test {

std::string ToString(const SystemCalls& calls) {
  return absl::StrCat(calls.all, " system calls: ", calls.waits, " futex waits, ", calls.wakes,
                      " wakes, ", calls.yields, " yields");
}

}  // namespace mp::test
