#include "strategy/pipeline_schedule.hpp"

#include <algorithm>

namespace dtrain::strategy {

namespace {

using Kind = StageTask::Kind;

std::vector<StageTask> all_then_all(int, int, int micro_batches) {
  std::vector<StageTask> tasks;
  for (const Kind kind : {Kind::forward, Kind::backward}) {
    for (int i = 0; i < micro_batches; ++i) tasks.push_back({kind, i});
  }
  return tasks;
}

int all_in_flight(int, int, int micro_batches) { return std::max(micro_batches, 1); }

// The last stage goes back at once, and each stage before it has one micro-batch more on the way.
int few_in_flight(int stage, int stages, int micro_batches) {
  return std::clamp(stages - stage, 1, std::max(micro_batches, 1));
}

std::vector<StageTask> one_by_one(int stage, int stages, int micro_batches) {
  std::vector<StageTask> tasks;
  const int ahead = std::min(few_in_flight(stage, stages, micro_batches) - 1, micro_batches);
  for (int i = 0; i < ahead; ++i) tasks.push_back({Kind::forward, i});
  for (int i = 0; i < micro_batches; ++i) {
    if (i + ahead < micro_batches) tasks.push_back({Kind::forward, i + ahead});
    tasks.push_back({Kind::backward, i});
  }
  return tasks;
}

}  // namespace

const Registry<PipelineSchedule>& pipeline_schedules() {
  static const auto table = [] {
    Registry<PipelineSchedule> filled("pipeline schedule");
    filled.add("1f1b", "backward as soon as it can: few activations are kept", {one_by_one, few_in_flight});
    filled.add("gpipe", "backward after all of forward: activations of all micro-batches are kept",
               {all_then_all, all_in_flight});
    return filled;
  }();
  return table;
}

double bubble_share(int stages, int micro_batches) {
  return static_cast<double>(stages - 1) / (micro_batches + stages - 1);
}

}  // namespace dtrain::strategy
