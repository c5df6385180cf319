#pragma once

#include <atomic>
#include <cstdint>

namespace dtrain::measure {

// What a step loop shows of itself while it runs: written by rank 0 after every step, read by a display
// thread at its leisure. Nothing here waits.
struct LiveStep {
  std::atomic<std::int64_t> steps{0};    // since the stretch began
  std::atomic<std::int64_t> planned{0};  // in the stretch
  std::atomic<std::int64_t> images{0};   // of all ranks, since the stretch began
  std::atomic<std::int64_t> begin_ns{0};
  std::atomic<double> loss{0.0};  // rank 0's mean in the last step
};

}  // namespace dtrain::measure
