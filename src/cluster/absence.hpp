#pragma once

#include <atomic>

#include "base/units.hpp"

namespace dtrain::cluster {

// Notices that this process itself did not run for so long (it was stopped, or its machine was) that others
// may have given it up: that they fall silent or end is then its own doing. Others count from the last beat
// that they heard, which may be a pulse older than the absence, so half of the timeout is taken for one.
class Absence {
 public:
  explicit Absence(Seconds timeout) : timeout_ns_(std::chrono::duration_cast<Duration>(timeout).count()) {}

  // Before the first pulse: what came before was no absence.
  void begin() { beat_ns_ = now_ns(); }
  // At each pulse.
  void beat() {
    const std::int64_t now = now_ns();
    if (late(now)) until_ns_ = now + timeout_ns_;
    beat_ns_ = now;
  }
  // From any thread: it is away, or came back less than a timeout ago.
  bool recent() const {
    const std::int64_t now = now_ns();
    return now < until_ns_ || late(now);
  }

 private:
  bool late(std::int64_t now) const { return now - beat_ns_ > timeout_ns_ / 2; }

  const std::int64_t timeout_ns_;
  std::atomic<std::int64_t> beat_ns_ = now_ns();
  std::atomic<std::int64_t> until_ns_ = 0;
};

}  // namespace dtrain::cluster
