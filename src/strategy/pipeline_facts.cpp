#include "strategy/pipeline_facts.hpp"

#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "strategy/pipeline_plan.hpp"
#include "strategy/pipeline_schedule.hpp"

namespace dtrain::strategy {

namespace {

// Share of a rank's step before the update in which it went neither forward nor backward.
double idle_share(const measure::RankPhases& phases) {
  const double busy = phases.forward + phases.backward;
  const double step = busy + phases.input + phases.communication + phases.host;
  return step > 0.0 ? 1.0 - busy / step : 0.0;
}

std::optional<double> mean_idle_share(const measure::RunSamples& samples) {
  double sum = 0.0;
  int count = 0;
  for (const auto& round : samples.rounds) {
    for (const auto& phases : round.ranks) {
      sum += idle_share(phases);
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

class Facts {
 public:
  void add(std::string name, double value, const char* unit, std::string meaning) {
    facts_.push_back({std::move(name), value, unit, std::move(meaning)});
  }
  std::vector<measure::Fact> take() { return std::move(facts_); }

 private:
  std::vector<measure::Fact> facts_;
};

void add_stages(Facts& facts, const AssignmentContext& context, const PipelineShape& shape) {
  const model::Model& model = *context.model;
  const auto cuts = pipeline_cuts(*context.options, model, shape.stages);
  const bool measured = context.options->layer_costs.size() == model.layers.size();
  const auto costs = model::stage_costs(model, cuts, layer_costs(*context.options, model));
  const double total = std::accumulate(costs.begin(), costs.end(), 0.0);
  for (std::size_t stage = 0; stage < costs.size(); ++stage) {
    const model::CutPoint begin = stage == 0 ? model::CutPoint{} : cuts[stage - 1];
    facts.add(fmt::format("stage_{}_share", stage), total > 0.0 ? costs[stage] / total : 0.0, "share",
              fmt::format("stage {} begins at {}: its part of the {}", stage, model::name_of(model, begin),
                          measured ? "time of all layers, measured before" : "operations of all layers"));
  }
  const double mean = total / static_cast<double>(costs.size());
  facts.add("stage_imbalance", mean > 0.0 ? std::ranges::max(costs) / mean : 1.0, "ratio",
            "cost of the slowest stage over the mean");
}

void add_activations(Facts& facts, const PipelineShape& shape, const measure::RunSamples& samples) {
  for (int stage = 0; stage < shape.stages && stage < std::ssize(samples.rank_memory); ++stage) {
    const auto& memory = samples.rank_memory[static_cast<std::size_t>(stage)];
    facts.add(fmt::format("stage_{}_activation_bytes", stage), static_cast<double>(memory.activations),
              "bytes",
              fmt::format("activations and their gradients of the micro-batches that stage {} has in flight",
                          stage));
  }
}

}  // namespace

std::string pipeline_division(const AssignmentContext& context) {
  const int stages = pipeline_shape(*context.options, context.plan->replicas).stages;
  std::vector<std::string> begins;
  for (const auto& cut : pipeline_cuts(*context.options, *context.model, stages)) {
    begins.push_back(model::name_of(*context.model, cut));
  }
  return begins.empty() ? std::string() : "cut at " + join(begins, ", ");
}

std::vector<measure::Fact> pipeline_facts(const AssignmentContext& context,
                                          const measure::RunSamples& samples) {
  const config::Options& options = *context.options;
  const PipelineShape shape = pipeline_shape(options, context.plan->replicas);
  const int images = config::share_of(config::share_of(context.plan->global_batch, 0, shape.pipelines), 0,
                                      options.accumulate);
  const auto micro_batches = micro_batch_images(images, shape.micro_batches);
  Facts facts;
  facts.add("stages", shape.stages, "count", "devices that a pipeline spans");
  facts.add("pipelines", shape.pipelines, "count", "side by side, each with its share of a step's images");
  facts.add("micro_batches", static_cast<double>(micro_batches.size()), "count",
            fmt::format("of {} images at most, in the order of schedule {}", micro_batches.front(),
                        options.pipeline_schedule));
  add_stages(facts, context, shape);
  facts.add("bubble_share_theory", bubble_share(shape.stages, static_cast<int>(micro_batches.size())),
            "share",
            "(stages - 1) / (micro-batches + stages - 1): idle if stages were even and messages free");
  if (const auto idle = mean_idle_share(samples)) {
    facts.add("bubble_share_measured", *idle, "share",
              "of the step before the update, in which a device went neither forward nor backward; mean over "
              "devices");
  }
  add_activations(facts, shape, samples);
  return facts.take();
}

}  // namespace dtrain::strategy
