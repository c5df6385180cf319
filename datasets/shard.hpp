#pragma once

#include <cstdint>

namespace dtrain::datasets {

// Positions in an epoch's order: `count` of them from `first` on.
struct OrderRange {
  std::size_t first = 0;
  int count = 0;
};

// How an epoch of `size` images is dealt out: step s takes the next `global_batch` of the order, each rank a
// contiguous share of those, and each micro-step a contiguous share of the rank's. Shares differ by one image
// at most, larger ones first (config::share_of). Nothing but `size` and these numbers decides.
struct Sharding {
  std::size_t size = 0;
  int global_batch = 1;
  bool keep_last = false;
  int replicas = 1;
  int accumulate = 1;

  int steps_per_epoch() const;
  int step_images(int step) const;  // of all ranks; below global_batch in a kept last step
  OrderRange micro_batch(int step, int rank, int micro_step) const;
  int largest_micro_batch(int rank) const;
};

}  // namespace dtrain::datasets
