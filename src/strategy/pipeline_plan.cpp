#include "strategy/pipeline_plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "strategy/pipeline_schedule.hpp"

namespace dtrain::strategy {

namespace {

// Enough that the bubble is small, and few enough that a micro-batch is worth a message.
constexpr int micro_batches_a_stage = 8;

std::optional<int> asked_stages(const config::Options& options) {
  if (options.pipeline_stages || options.cut.empty()) return options.pipeline_stages;
  return static_cast<int>(options.cut.size()) + 1;
}

// Smaller runs of a sweep take what they have; the run that was asked for takes what was asked.
void require_stages_used(const config::Options& options, int devices) {
  const int stages = asked_stages(options).value_or(1);
  if (stages <= devices || options.replicas.empty()) return;
  if (devices < *std::ranges::max_element(options.replicas)) return;
  const std::string flag = options.cut.empty() ? fmt::format("--pipeline-stages {}", stages)
                                               : fmt::format("--cut {}", fmt::join(options.cut, ","));
  throw usage_error(fmt::format("{}: pipelines of {} stages, but the largest run has {} device{}", flag,
                                stages, devices, devices == 1 ? "" : "s"),
                    fmt::format("use --gpus {}, or {}", stages,
                                options.cut.empty() ? fmt::format("--pipeline-stages {} or less", devices)
                                                    : fmt::format("name {} layer{} to cut at", devices - 1,
                                                                  devices == 2 ? "" : "s")));
}

void require_whole_pipelines(const config::Options& options, int devices, int stages) {
  const int over = devices % stages;
  if (over == 0) return;
  throw usage_error(
      fmt::format("pipeline-{0}: {0} devices are no whole number of pipelines of {1} stages", devices,
                  stages),
      fmt::format("use --gpus {} or {}{}", devices - over, devices + stages - over,
                  options.cut.empty() ? fmt::format(", or --pipeline-stages {}", devices) : ""));
}

}  // namespace

int stages_of(const config::Options& options, int devices) {
  return std::min(asked_stages(options).value_or(devices), devices);
}

PipelineShape pipeline_shape(const config::Options& options, int devices) {
  require_stages_used(options, devices);
  PipelineShape shape;
  shape.stages = stages_of(options, devices);
  require_whole_pipelines(options, devices, shape.stages);
  shape.pipelines = devices / shape.stages;
  shape.micro_batches = options.micro_batches.value_or(micro_batches_a_stage * shape.stages);
  return shape;
}

std::vector<double> layer_costs(const config::Options& options, const model::Model& model) {
  return options.layer_costs.size() == model.layers.size() ? options.layer_costs
                                                           : model::counted_costs(model);
}

std::vector<model::CutPoint> pipeline_cuts(const config::Options& options, const model::Model& model,
                                           int stages) {
  if (stages == 1) return {};
  if (static_cast<int>(options.cut.size()) + 1 == stages) return model::parse_cuts(model, options.cut);
  return model::cut_by_cost(model, stages, layer_costs(options, model));
}

std::vector<int> micro_batch_images(int images, int micro_batches) {
  std::vector<int> counts;
  const int count = std::min(images, micro_batches);
  for (int i = 0; i < count; ++i) counts.push_back(config::share_of(images, i, count));
  return counts;
}

Assignment assign_stage(const AssignmentContext& context) {
  const config::Options& options = *context.options;
  const PipelineShape shape = pipeline_shape(options, context.plan->replicas);
  const int stage = shape.stage_of(context.rank);
  const int images = config::share_of(config::share_of(context.plan->global_batch, 0, shape.pipelines), 0,
                                      options.accumulate);
  const auto micro_batches = micro_batch_images(images, shape.micro_batches);
  Assignment assignment;
  if (shape.stages > 1) {
    assignment.part =
        model::make_stage(*context.model, pipeline_cuts(options, *context.model, shape.stages), stage);
  }
  assignment.contributes = shape.pipeline_of(context.rank) == 0;
  assignment.share = shape.pipeline_of(context.rank);
  assignment.shares = shape.pipelines;
  assignment.counts = stage == shape.stages - 1;
  assignment.max_batch = micro_batches.front();
  assignment.slots = pipeline_schedules()
                         .at(options.pipeline_schedule)
                         .value.in_flight(stage, shape.stages, static_cast<int>(micro_batches.size()));
  assignment.gives_loss = assignment.counts;
  assignment.wants_input_gradient = stage > 0;
  return assignment;
}

}  // namespace dtrain::strategy
