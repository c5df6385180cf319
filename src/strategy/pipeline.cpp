#include "strategy/pipeline.hpp"

#include <algorithm>

#include "backend/cpu/layer_profile.hpp"
#include "base/error.hpp"
#include "strategy/pipeline_facts.hpp"
#include "strategy/pipeline_plan.hpp"
#include "strategy/pipeline_rank.hpp"
#include "strategy/server_flags.hpp"
#include "strategy/synchronous.hpp"

namespace dtrain::strategy {
namespace {

void refuse_others_flags(const config::Options& options) {
  const auto refuse = [](const std::string& flag, const char* advice) {
    throw usage_error(fmt::format("{} does not go with --strategy pipeline", flag), advice);
  };
  const char* servers = "use --strategy parameter-server, or leave it out";
  for (const auto& flag : server_flags(options)) refuse(flag, servers);
  const char* copies = "use --strategy mirrored, whose replicas hold the whole model, or leave it out";
  if (options.compress != "none") refuse("--compress " + options.compress, copies);
  if (options.sync_every != 1) refuse(fmt::format("--sync-every {}", options.sync_every), copies);
  if (options.outer_momentum != 0.0)
    refuse(fmt::format("--outer-momentum {}", options.outer_momentum), copies);
}

void require_one_number_of_stages(const config::Options& options) {
  if (options.cut.empty() || !options.pipeline_stages) return;
  const int stages = static_cast<int>(options.cut.size()) + 1;
  if (*options.pipeline_stages == stages) return;
  throw usage_error(fmt::format("--cut {} makes {} stages, and --pipeline-stages asks for {}",
                                fmt::join(options.cut, ","), stages, *options.pipeline_stages),
                    fmt::format("use --pipeline-stages {}, or leave one of them out", stages));
}

// About the size of micro-batches at the largest run: times of layers are not quite in proportion to images.
int images_to_measure(const config::Options& options) {
  const int devices = options.replicas.empty() ? 1 : *std::ranges::max_element(options.replicas);
  const PipelineShape shape = pipeline_shape(options, devices);
  const int images = options.global_batch
                         ? *options.global_batch / shape.pipelines
                         : options.batch_size.value_or(config::default_batch_size) * shape.stages;
  return std::max(images / shape.micro_batches, 1);
}

class Pipeline final : public Synchronous {
 public:
  std::unique_ptr<RankStrategy> attach(const RankContext& context) const override {
    return make_pipeline_rank(context);
  }

  std::shared_ptr<Shared> share(const RunContext& context) const override {
    if (context.member == nullptr) return nullptr;
    auto workers = std::make_shared<PipelineWorkers>();
    for (const int worker : context.plan->workers) {
      workers->by_rank.push_back(context.member->peers().at(static_cast<std::size_t>(worker)).describe());
    }
    return workers;
  }

  void measure_ahead(config::Options& options, const model::Model& model,
                     const backend::Backend&) const override {
    model::parse_cuts(model, options.cut);
    if (options.layer_costs.size() == model.layers.size()) return;
    options.layer_costs = backend::cpu::measure_layers(model, images_to_measure(options));
  }

  void check(const config::Options& options) const override {
    refuse_others_flags(options);
    require_one_number_of_stages(options);
  }

  Assignment assign(const AssignmentContext& context) const override { return assign_stage(context); }
  std::string division(const AssignmentContext& context) const override { return pipeline_division(context); }
  // Where devices are no whole number of pipelines, assigning them says so.
  int shares(const config::Options& options, int replicas) const override {
    return std::max(replicas / stages_of(options, replicas), 1);
  }

  std::vector<measure::Fact> facts(const AssignmentContext& context,
                                   const measure::RunSamples& samples) const override {
    return pipeline_facts(context, samples);
  }
};

}  // namespace

std::shared_ptr<const Strategy> make_pipeline() { return std::make_shared<Pipeline>(); }

}  // namespace dtrain::strategy
