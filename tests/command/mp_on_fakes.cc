// The program mp on a machine with GPUs that are not there: MP_FAKE_GPUS of them, or no driver
// where it is not set.  What real hardware would not forgive is exit code 99.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "mp/command/program.h"
#include "tests/fake/machine.h"

int main(int argc, char** argv) {
  std::unique_ptr<mp::fake::Machine> machine;
  if (const char* gpus = std::getenv("MP_FAKE_GPUS"); gpus != nullptr) {
    const char* seed = std::getenv("MP_FAKE_SEED");
    machine = std::make_unique<mp::fake::Machine>(
        mp::fake::Options{.devices = std::atoi(gpus),
                          .seed = static_cast<uint64_t>(seed == nullptr ? 1 : std::atoi(seed))});
  }
  const int exit_code = mp::command::RunProgram(argc, argv);
  const std::string verdict = machine == nullptr ? "" : machine->Verdict();
  if (verdict.empty()) return exit_code;
  std::fprintf(stderr, "%s\n", verdict.c_str());
  return 99;
}
