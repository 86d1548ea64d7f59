// The sanitizers' run-time options, compiled in: a test needs no environment and no file to find
// them. Each function is called by the sanitizer's runtime, which declares it as a weak symbol.

extern "C" {

const char* __asan_default_options() {
  return "halt_on_error=1:detect_stack_use_after_return=1:strict_init_order=1";
}

const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }

const char* __tsan_default_options() { return "halt_on_error=1:second_deadlock_stack=1"; }

const char* __tsan_default_suppressions() {
  // Debian's Abseil is not instrumented, so the count inside a Status that two threads drop is
  // invisible and its free looks like a race with the other thread's last read.
  return "race:absl::*Status::Unref*\n";
}

}  // extern "C"
