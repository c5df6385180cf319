#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace cuda_double {

// A counter that threads wait for. Raising orders what came before it ahead of what comes after the wait, and
// nothing else: no locks, no acquire where nothing is waited for. The thread sanitizer therefore sees exactly
// the order that the program under test asked for, and a missing wait is a data race however the threads ran.
class Signal {
 public:
  Signal() = default;
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void raise() {
    count_.fetch_add(1, std::memory_order_release);
    futex(FUTEX_WAKE_PRIVATE, INT_MAX);
  }

  // True once it was raised that often.
  bool reached(std::uint32_t times) const {
    if (static_cast<std::int32_t>(count_.load(std::memory_order_relaxed) - times) < 0) return false;
    (void)count_.load(std::memory_order_acquire);
    return true;
  }

  void wait(std::uint32_t times) const {
    while (!reached(times)) sleep_unless(times, nullptr);
  }

  // False when that has not happened within a millisecond or so.
  bool wait_briefly(std::uint32_t times) const {
    const timespec moment{0, 1'000'000};
    if (!reached(times)) sleep_unless(times, &moment);
    return reached(times);
  }

 private:
  void sleep_unless(std::uint32_t times, const timespec* longest) const {
    const std::uint32_t seen = count_.load(std::memory_order_relaxed);
    if (static_cast<std::int32_t>(seen - times) < 0) futex(FUTEX_WAIT_PRIVATE, seen, longest);
  }
  void futex(int operation, std::uint32_t value, const timespec* longest = nullptr) const {
    syscall(SYS_futex, &count_, operation, value, longest, nullptr, 0);
  }

  std::atomic<std::uint32_t> count_{0};
};

}  // namespace cuda_double
