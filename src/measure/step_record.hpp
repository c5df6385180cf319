#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::measure {

// What one rank stamped in one step. Times are steady-clock nanoseconds; on one machine they compare across
// ranks.
//
//   begin -> input ready -> (forward, backward) x micro-steps -> arrival -> communicated -> updated = end
//
// `backward` does not contain `communication_in_backward`, the time the rank itself worked for a collective
// while its forward, backward or update went on; arrival is the moment it had nothing left to do but to wait
// for others.
struct StepRecord {
  std::int64_t begin_ns = 0;
  std::int64_t arrival_ns = 0;  // 0: not measured (no collective)
  std::int64_t communicated_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t input_ns = 0;  // waiting for the pipeline
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  std::int64_t communication_in_backward_ns = 0;
  std::int64_t update_ns = 0;
  std::int64_t fused_ns = 0;     // all of it, where a step is one program
  std::int32_t images = 0;       // this rank's own
  std::int32_t step_images = 0;  // of all ranks
  double loss_sum = 0.0;         // over this rank's images
  std::int32_t correct = 0;
  std::int32_t staleness = 0;  // updates by others between the gradient's weights and its own update
  bool dropped = false;        // its gradient came too late to be used
  bool skipped = false;        // update left out after an overflow (dynamic loss scaling)
};

// A stretch of steps that all ranks began together.
struct StretchRecord {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  // of the slowest rank
  std::vector<std::vector<StepRecord>> ranks;
};

}  // namespace dtrain::measure
