#pragma once

#include <atomic>

namespace dtrain::cli {

// While it lives, the first SIGINT or SIGTERM asks the work to stop and the second ends the process at once
// with exit code 130. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  const std::atomic<bool>& stop() const;
  bool stopped() const { return stop().load(); }
};

// While it lives, the first signal ends the process at once too: nothing has been measured yet.
class AtOnce {
 public:
  AtOnce();
  ~AtOnce();
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;
};

}  // namespace dtrain::cli
