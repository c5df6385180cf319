#include "train/rank_rules.hpp"

#include <algorithm>
#include <stdexcept>

namespace dtrain::train {

datasets::PipelineConfig pipeline_of_rank(const WorldConfig& world, const strategy::Assignment& assignment,
                                          int rank) {
  const config::Options& options = *world.options;
  datasets::PipelineConfig pipeline;
  pipeline.seed = options.seed;
  pipeline.shuffle = options.shuffle;
  pipeline.global_batch = world.plan.global_batch;
  pipeline.keep_last = options.last_batch == config::LastBatch::keep;
  pipeline.rank = assignment.share;
  pipeline.replicas = assignment.shares;
  pipeline.accumulate = options.accumulate;
  pipeline.augment = options.augment;
  pipeline.prefetch = options.prefetch;
  if (!world.plan.cores.empty()) pipeline.cores = world.plan.cores[static_cast<std::size_t>(rank)];
  return pipeline;
}

datasets::BatchContent content_for(backend::InputFormat format) {
  switch (format) {
    case backend::InputFormat::nchw:
      return datasets::BatchContent::nchw;
    case backend::InputFormat::bytes:
      return datasets::BatchContent::bytes;
    case backend::InputFormat::records:
      return datasets::BatchContent::records;
  }
  throw std::logic_error("an input format without a batch content");
}

std::unique_ptr<comm::Communicator> join_group(comm::LocalGroup* group, int rank, backend::Replica& replica) {
  if (group == nullptr) return nullptr;
  auto communicator = group->join(rank, replica.stream());
  communicator->register_buffer(replica.gradients());
  return communicator;
}

strategy::RankContext context_of_rank(const WorldConfig& world, int rank) {
  strategy::RankContext context;
  context.rank = rank;
  context.replicas = world.plan.replicas;
  context.options = world.options;
  context.timeout = world.options->timeout;
  context.loss_scaling = world.options->precision == config::Precision::fp16;
  return context;
}

int images_of_update(const WorldConfig& world, const strategy::Assignment& assignment, int step_images) {
  const int replicas = world.plan.replicas;
  if (replicas == 1 || world.strategy->replicas_in_sync(*world.options, replicas) > 1) return step_images;
  return std::max(config::share_of(step_images, assignment.share, assignment.shares), 1);
}

kernels::OptimizerStep optimizer_step(const config::Options& options, double learning_rate, double scale,
                                      std::int64_t updates) {
  kernels::OptimizerStep step;
  step.learning_rate = learning_rate;
  step.momentum = options.momentum;
  step.weight_decay = options.weight_decay > 0.0
                          ? options.weight_decay
                          : kernels::optimizers().at(options.optimizer).value.default_weight_decay;
  step.gradient_unscale = 1.0 / scale;
  step.step = static_cast<long>(updates + 1);
  return step;
}

}  // namespace dtrain::train
