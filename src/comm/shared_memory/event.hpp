#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/units.hpp"

namespace dtrain::comm {

// How a wait passes its time before it sleeps.
struct Patience {
  Duration spin{0};   // holding the core
  Duration yield{0};  // offering the core to others
};

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Lets threads wait for what one rank does. The deed is a sequentially consistent store before notify(), and
// readiness is tested by sequentially consistent loads: so either the waiter sees the deed or notify() sees
// the waiter.
class Event {
 public:
  void notify() {
    if (sleepers_.load() != 0) wake();
  }

  void wake() {
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

  // Returns false if it was not ready by `until`.
  template <class Ready>
  bool wait(const Ready& ready, TimePoint until, const Patience& patience) {
    constexpr int pauses = 64;  // between looks at the clock; about a microsecond
    const auto spin = [&] {
      for (int i = 0; i < pauses; ++i) {
        if (ready()) return true;
        pause_core();
      }
      return false;
    };
    if (spin()) return true;
    const TimePoint begin = Clock::now();
    for (TimePoint now = begin; now < until && now < begin + patience.spin + patience.yield;
         now = Clock::now()) {
      if (now >= begin + patience.spin) std::this_thread::yield();
      if (spin()) return true;
    }
    return sleep(ready, until);
  }

 private:
  template <class Ready>
  bool sleep(const Ready& ready, TimePoint until) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    const bool done = changed_.wait_until(lock, until, ready);
    sleepers_.fetch_sub(1);
    return done;
  }

  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace dtrain::comm
