// What a test does in a child process that fork() makes.
//
//   EXPECT_EQ(InChild([&] { return world->Close().ok() ? "closed" : ""; }), "");
#ifndef MP_TESTS_SUPPORT_CHILD_H_
#define MP_TESTS_SUPPORT_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace mp::test {

// How a child ends when its function has returned.
enum class ChildEnd {
  kAtOnce,  // _exit
  kExit,    // exit: destroys what is static
};

// What `function` returns in the child, or how the child came to its end without.  A child that
// takes a minute is killed.
inline std::string InChild(const std::function<std::string()>& function,
                           ChildEnd end = ChildEnd::kAtOnce) {
  int pipes[2];
  if (pipe(pipes) != 0) return "no pipe";
  const pid_t child = fork();
  if (child < 0) return "no child";
  if (child == 0) {
    alarm(60);
    const std::string said = function();
    const bool written =
        write(pipes[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    if (end == ChildEnd::kAtOnce) _exit(written ? 0 : 1);
    exit(written ? 0 : 1);
  }
  close(pipes[1]);
  std::string said;
  char buffer[512];
  for (ssize_t got; (got = read(pipes[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<size_t>(got));
  }
  close(pipes[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "exit " + std::to_string(WEXITSTATUS(status)) + ": " + said;
  return said;
}

}  // namespace mp::test

#endif  // MP_TESTS_SUPPORT_CHILD_H_
