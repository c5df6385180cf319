#include "dtrain/driven_replica.hpp"

#include <algorithm>
#include <cmath>

#include "train/batch_of.hpp"
#include "train/failure.hpp"
#include "train/rank_rules.hpp"
#include "train/replica_config.hpp"

namespace dtrain {

namespace {

constexpr int slot = 0;  // one micro-batch in flight

}  // namespace

void DrivenReplica::Buckets::open(strategy::RankStrategy& strategy, bool at_once) {
  strategy_ = &strategy;
  at_once_ = at_once;
}

void DrivenReplica::Buckets::bucket_ready(int bucket, backend::DeviceToken ready) {
  if (at_once_) {
    strategy_->bucket_ready(bucket, ready);
  } else {
    held_.push_back({bucket, ready});
  }
}

void DrivenReplica::Buckets::send_held() {
  for (const Held& held : held_) strategy_->bucket_ready(held.bucket, held.ready);
  held_.clear();
}

DrivenReplica::DrivenReplica(const train::WorldConfig& config, int rank)
    : config_(&config),
      rank_(rank),
      assignment_(config.strategy->assign(
          {.model = config.model.get(), .options = config.options, .plan = &config.plan, .rank = rank})),
      loss_scaling_(config.options->precision == config::Precision::fp16) {
  if (!loss_scaling_) loss_scale_.scale = 1.0;
}

void DrivenReplica::build() {
  const config::Options& options = *config_->options;
  replica_ = config_->backend->make_replica(train::replica_config({.model = config_->model.get(),
                                                                   .options = &options,
                                                                   .plan = &config_->plan,
                                                                   .strategy = config_->strategy.get(),
                                                                   .assignment = &assignment_,
                                                                   .rank = rank_}));
  replica_->import_weights(model::initial_weights(*config_->model, options.seed));
}

void DrivenReplica::join(comm::LocalGroup* group, std::shared_ptr<strategy::Shared> shared) {
  communicator_ = train::join_group(group, rank_, *replica_);
  strategy::RankContext context = train::context_of_rank(*config_, rank_);
  context.replica = replica_.get();
  context.communicator = communicator_.get();
  context.shared = std::move(shared);
  context.assignment = &assignment_;
  strategy_ = config_->strategy->attach(context);
  if (strategy_->computes() || replica_->fused()) {
    throw usage_error(
        fmt::format("--strategy {}: takes a step as a whole, and leaves nothing to a custom loop",
                    config_->plan.strategy),
        "use `dtrain train`, or another strategy here");
  }
  buckets_.open(*strategy_, config_->options->overlap);
}

void DrivenReplica::release() {
  strategy_.reset();
  communicator_.reset();
  pipelines_.clear();
  replica_.reset();
}

void DrivenReplica::abort(const std::string& reason) {
  if (communicator_) communicator_->abort(reason);
}

datasets::PipelineConfig DrivenReplica::pipeline_config() const {
  datasets::PipelineConfig pipeline = train::pipeline_of_rank(*config_, assignment_, rank_);
  pipeline.content = train::content_for(replica_->input_format());
  return pipeline;
}

void DrivenReplica::add(std::shared_ptr<const datasets::Dataset> dataset) {
  datasets::PipelineConfig config = pipeline_config();
  config.dataset = std::move(dataset);
  pipelines_.push_back(datasets::make_pipeline(config));
}

const Batch& DrivenReplica::next(const DistributedDataset& dataset) {
  return pipelines_.at(dataset.number_)->next();
}

void DrivenReplica::expect(Stage stage, const char* call, const char* advice) const {
  if (stage_ == stage) return;
  throw usage_error(fmt::format("{} out of its order", call), advice);
}

void DrivenReplica::forward(const Batch& batch) {
  if (stage_ != Stage::backward_done) {
    expect(Stage::begin, "forward", "call backward after it, and apply_gradients after a step's last batch");
    strategy_->before_step();
    first_ = true;
  }
  if (batch.count > 0) replica_->forward(slot, train::batch_of(batch));
  stage_ = Stage::forward_done;
}

void DrivenReplica::backward(const Batch& batch) {
  expect(Stage::forward_done, "backward", "call forward with the same batch before it");
  const bool last = batch.last_of_step;
  if (batch.count > 0) {
    const auto scale = static_cast<float>(loss_scale_.scale /
                                          train::images_of_update(*config_, assignment_, batch.step_images));
    replica_->backward(slot, scale, first_, last, buckets_);
    first_ = false;
  } else if (last) {
    if (first_) replica_->clear_gradients();
    const int count = static_cast<int>(replica_->buckets().size());
    for (int bucket = 0; bucket < count; ++bucket) buckets_.bucket_ready(bucket, {});
  }
  stage_ = last ? Stage::all_backward_done : Stage::backward_done;
}

bool DrivenReplica::apply_gradients(std::optional<double> learning_rate) {
  expect(Stage::all_backward_done, "apply_gradients",
         "call it after backward of a step's last batch: where batch.last_of_step says so");
  const kernels::OptimizerStep update = train::optimizer_step(
      *config_->options, learning_rate.value_or(config_->schedule->learning_rate(step_)), loss_scale_.scale,
      updates_);
  try {
    exchange_and_update(update);
  } catch (const Error&) {
    // Others may have met this replica's bad gradient, and aborted, before it came to look at the sum.
    if (!loss_scaling_ && own_gradients_are_bad()) refuse("gradient", true, update.learning_rate);
    throw;
  }
  result_ = replica_->result(slot);
  const backend::StepOutcome outcome = step_outcome();
  judge(outcome, update.learning_rate);
  stage_ = Stage::begin;
  return outcome.applied;
}

void DrivenReplica::exchange_and_update(const kernels::OptimizerStep& update) {
  if (strategy_->synchronizes_last()) {
    strategy_->apply(update);
    strategy_->synchronize();
  } else {
    buckets_.send_held();
    strategy_->synchronize();
    strategy_->apply(update);
  }
  const Deadline deadline = Deadline::in(config_->options->timeout);
  if (communicator_) communicator_->synchronize(deadline);
  replica_->synchronize(deadline);
}

backend::StepOutcome DrivenReplica::step_outcome() const {
  const auto elsewhere = strategy_->outcome();
  return elsewhere ? *elsewhere : replica_->outcome();
}

// Without a collective the update saw no gradients but this replica's.
bool DrivenReplica::own_gradients_are_bad() const {
  const backend::StepOutcome outcome = step_outcome();
  return config_->strategy->communicates() ? !outcome.own_finite : !outcome.applied;
}

StepResult DrivenReplica::result() const {
  expect(Stage::begin, "result", "call it after apply_gradients");
  return result_;
}

void DrivenReplica::refuse(const char* what, bool own, double learning_rate) const {
  throw train::NotFinite(
      fmt::format("{} is not finite", what),
      fmt::format("lower the learning rate, {:g} in this step; if it persists, look at the data",
                  learning_rate),
      own);
}

void DrivenReplica::judge(const backend::StepOutcome& outcome, double learning_rate) {
  if (!std::isfinite(result_.loss_sum)) refuse("loss", true, learning_rate);
  if (outcome.applied && !outcome.weights_finite) refuse("weight", true, learning_rate);
  if (!outcome.applied && !loss_scaling_) {
    const bool own = own_gradients_are_bad();
    refuse(own ? "gradient" : "gradient summed over all ranks", own, learning_rate);
  }
  if (!outcome.applied && !loss_scale_.step_overflowed()) {
    throw run_error("gradients overflow even at the smallest loss scale",
                    "use --precision bf16 or fp32, or a lower learning rate");
  }
  if (outcome.applied) {
    ++updates_;
    if (loss_scaling_) loss_scale_.step_succeeded();
  }
  ++step_;
}

void DrivenReplica::collect_state() { strategy_->collect_state(); }

std::vector<float> DrivenReplica::statistics() const {
  std::vector<float> values(config_->model->statistic_count);
  replica_->export_statistics(values);
  return values;
}

std::vector<float> DrivenReplica::weights() const {
  std::vector<float> values(config_->model->parameter_count);
  replica_->export_weights(values);
  return values;
}

StepResult DrivenReplica::evaluate(const std::shared_ptr<const datasets::Dataset>& share,
                                   std::span<const float> statistics) {
  replica_->import_statistics(statistics);
  StepResult sums;
  if (share->size() == 0) return sums;
  datasets::PipelineConfig in_order = pipeline_config();
  in_order.dataset = share;
  in_order.shuffle = 0;
  in_order.global_batch =
      static_cast<int>(std::min(static_cast<std::size_t>(assignment_.max_batch), share->size()));
  in_order.keep_last = true;
  in_order.rank = 0;
  in_order.replicas = 1;
  in_order.accumulate = 1;
  in_order.augment = false;
  const auto pipeline = datasets::make_pipeline(in_order);
  for (int step = 0; step < pipeline->steps_per_epoch(); ++step) {
    const StepResult part = replica_->evaluate(train::batch_of(pipeline->next()));
    sums.loss_sum += part.loss_sum;
    sums.correct += part.correct;
    sums.count += part.count;
  }
  return sums;
}

}  // namespace dtrain
