#pragma once

#include <vector>

#include "base/registry.hpp"

namespace dtrain::strategy {

// What a stage does next, and with which micro-batch of the step.
struct StageTask {
  enum class Kind { forward, backward };
  Kind kind = Kind::forward;
  int micro_batch = 0;
  bool operator==(const StageTask&) const = default;
};

// In which order a stage takes its micro-batches forward and backward. Both go in ascending order, the same
// on all stages; never more than `in_flight` are between forward and backward, so that micro-batch i may use
// slot i % in_flight.
struct PipelineSchedule {
  std::vector<StageTask> (*tasks)(int stage, int stages, int micro_batches);
  int (*in_flight)(int stage, int stages, int micro_batches);
};

// 1f1b: as few micro-batches go forward as later stages need to start, then one backward follows each
// forward. gpipe: all go forward, then all go backward.
const Registry<PipelineSchedule>& pipeline_schedules();

// Share of a step that a stage idles, if all stages take equally long and messages no time; of both
// schedules.
double bubble_share(int stages, int micro_batches);

}  // namespace dtrain::strategy
