#pragma once

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "base/units.hpp"
#include "config/options.hpp"

namespace dtrain::train {

// What one rank waits in each phase of every step, because the user asked for it.
class PhaseDelays {
 public:
  PhaseDelays(const std::vector<config::InjectedDelay>& delays, int rank) {
    for (const auto& delay : delays) {
      if (delay.rank != rank) continue;
      waits_[static_cast<std::size_t>(delay.phase)] +=
          std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(delay.milliseconds));
    }
  }

  // Sleeps; `poll` is called every few milliseconds and may throw.
  template <class Poll>
  void wait(config::Phase phase, const Poll& poll) const {
    constexpr Duration slice = std::chrono::milliseconds(5);
    const Duration wanted = waits_[static_cast<std::size_t>(phase)];
    if (wanted <= Duration::zero()) return;
    const TimePoint end = Clock::now() + wanted;
    for (TimePoint now = Clock::now(); now < end; now = Clock::now()) {
      std::this_thread::sleep_for(std::min<Duration>(slice, end - now));
      poll();
    }
  }

 private:
  std::array<Duration, config::phase_count> waits_{};
};

}  // namespace dtrain::train
