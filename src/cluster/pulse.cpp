#include "cluster/pulse.hpp"

namespace dtrain::cluster {

Pulse::Pulse(Seconds interval, std::function<void(bool late)> beat)
    : thread_([this, interval, beat = std::move(beat)] { run(interval, beat); }) {}

Pulse::~Pulse() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Pulse::run(Seconds interval, const std::function<void(bool late)>& beat) {
  TimePoint last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = Clock::now();
    const bool late = now - last > 2.0 * interval;
    last = now;
    lock.unlock();
    beat(late);
    lock.lock();
    changed_.wait_for(lock, interval, [&] { return stopping_; });
  }
}

}  // namespace dtrain::cluster
