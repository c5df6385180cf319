#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace dtrain::comm {

struct SweepConfig {
  std::vector<std::size_t> sizes;  // bytes, multiples of 4
  Seconds time_per_size{0.3};      // as many repetitions as fit, within the limits
  int fewest = 10;                 // repetitions
  int most = 1000;
  int warm_up = 5;
  bool exact = true;  // sums must be right; else (compressed) only the same on all ranks
  Seconds timeout{20.0};
};

struct SweepPoint {
  std::size_t bytes = 0;
  std::vector<double> seconds;  // of every repetition, the slowest rank's
  std::string wrong{};          // the first value that was not as it must be; empty: all were
  int wrong_rank = -1;
};

// Times all-reduces of every size. All ranks call it together, and all get the same points. The buffer of the
// largest size is registered.
std::vector<SweepPoint> sweep_all_reduce(Communicator& communicator, const SweepConfig& config);

}  // namespace dtrain::comm
