#include "cli/interrupt.hpp"

#include <unistd.h>

#include <csignal>

#include "base/error.hpp"

namespace dtrain::cli {

namespace {

// A signal handler has nowhere else to look.
std::atomic<bool> stop_requested{false};
std::atomic<bool> at_once{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_signal(int) {
  if (stop_requested.exchange(true) || at_once.load()) ::_exit(static_cast<int>(ExitCode::interrupted));
}

void handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  stop_requested = false;
  handle(on_signal);
}

InterruptGuard::~InterruptGuard() { handle(SIG_DFL); }

AtOnce::AtOnce() { at_once = true; }
AtOnce::~AtOnce() { at_once = false; }

const std::atomic<bool>& InterruptGuard::stop() const { return stop_requested; }

}  // namespace dtrain::cli
