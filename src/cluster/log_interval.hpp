#pragma once

#include "base/units.hpp"

namespace dtrain::cluster {

// When to say again that one still waits: after 1 s, 2 s, 4 s, 8 s, and every 10 s from then on.
class LogInterval {
 public:
  TimePoint next() const { return next_; }
  bool due() {
    if (Clock::now() < next_) return false;
    next_ += pause_;
    pause_ = std::min(2 * pause_, Clock::duration(std::chrono::seconds(10)));
    return true;
  }

 private:
  Clock::duration pause_ = std::chrono::seconds(1);
  TimePoint next_ = Clock::now() + std::chrono::seconds(1);
};

}  // namespace dtrain::cluster
