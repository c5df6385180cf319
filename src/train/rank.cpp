#include "train/rank.hpp"

#include <algorithm>
#include <cmath>

#include "model/model.hpp"
#include "train/batch_of.hpp"
#include "train/rank_rules.hpp"
#include "train/replica_config.hpp"

namespace dtrain::train {

using config::Phase;

Rank::Rank(const WorldConfig& config, const FailureLog& failures, int rank)
    : config_(&config),
      failures_(&failures),
      rank_(rank),
      assignment_(config.strategy->assign(
          {.model = config.model.get(), .options = config.options, .plan = &config.plan, .rank = rank})),
      loss_scaling_(config.options->precision == config::Precision::fp16),
      delays_(config.delays, rank) {
  if (!loss_scaling_) loss_scale_.scale = 1.0;
}

void Rank::build() {
  const config::Options& options = *config_->options;
  replica_ = config_->backend->make_replica(replica_config({.model = config_->model.get(),
                                                            .options = &options,
                                                            .plan = &config_->plan,
                                                            .strategy = config_->strategy.get(),
                                                            .assignment = &assignment_,
                                                            .rank = rank_}));
  const std::vector<float> initial = model::initial_weights(*config_->model, options.seed);
  if (assignment_.part) {
    replica_->import_weights(
        model::take_part(initial, assignment_.part->parameters, own_model().parameter_count));
  } else {
    replica_->import_weights(initial);
  }
  if (options.cache) replica_->hold_dataset(*config_->data.train);
  stamps_.emplace(*replica_, config_->strategy->communicates(), options.accumulate);
  stamps_->before_communication([this] { delay(Phase::communication); });
  pipeline_ = datasets::make_pipeline(pipeline_config());
  prepare_steps();
}

// Of a full step, and of an epoch's last where that is shorter and kept.
void Rank::prepare_steps() {
  const int accumulate = config_->options->accumulate;
  const auto prepare = [&](int step_images) {
    const int own = config::share_of(step_images, assignment_.share, assignment_.shares);
    std::vector<int> images;
    for (int micro = 0; micro < accumulate; ++micro) {
      images.push_back(config::share_of(own, micro, accumulate));
    }
    replica_->prepare_steps(images);
  };
  const int full = config_->plan.global_batch;
  prepare(full);
  const auto rest = static_cast<int>(config_->data.train->size() % static_cast<std::size_t>(full));
  if (rest >= accumulate && config_->options->last_batch == config::LastBatch::keep) prepare(rest);
}

datasets::PipelineConfig Rank::pipeline_config() const {
  datasets::PipelineConfig pipeline = pipeline_of_rank(*config_, assignment_, rank_);
  pipeline.dataset = config_->data.train;
  pipeline.content = assignment_.wants_input_gradient ? datasets::BatchContent::labels
                                                      : content_for(replica_->input_format());
  return pipeline;
}

void Rank::join(comm::LocalGroup* group, std::shared_ptr<strategy::Shared> shared) {
  communicator_ = join_group(group, rank_, *replica_);
  strategy::RankContext context = context_of_rank(*config_, rank_);
  context.replica = replica_.get();
  context.communicator = communicator_.get();
  context.shared = std::move(shared);
  context.assignment = &assignment_;
  context.clock = &*stamps_;
  strategy_ = config_->strategy->attach(context);
  stamps_->set_synchronizes_last(strategy_->synchronizes_last());
  stamps_->set_arrives(strategy_->arrives());
  stamps_->set_fused(replica_->fused());
  stamps_->set_overlap(config_->options->overlap);
  // A delay is the host's: it would not be there in a replay.
  record_ = config_->options->cuda_graphs && config_->delays.empty() && strategy_->only_enqueues();
}

std::uint64_t Rank::bytes_sent() const {
  const std::uint64_t carried = communicator_ ? communicator_->bytes_sent() + replayed_bytes_ : 0;
  return carried + (strategy_ ? strategy_->bytes_sent() : 0);
}

std::uint64_t Rank::bytes_uncompressed() const {
  const std::uint64_t carried = communicator_ ? communicator_->bytes_uncompressed() + replayed_bytes_ : 0;
  return carried + (strategy_ ? strategy_->bytes_sent() : 0);
}

void Rank::release() {
  if (replica_) replica_->forget_recorded();
  strategy_.reset();
  communicator_.reset();
  pipeline_.reset();
  stamps_.reset();
  replica_.reset();
}

void Rank::abort(const std::string& reason) {
  if (communicator_) communicator_->abort(reason);
}

void Rank::poll() const {
  if (config_->stop != nullptr && config_->stop->load(std::memory_order_relaxed)) throw Interrupted();
  if (failures_->any()) throw Abandoned();
}

void Rank::run(std::span<measure::StepRecord> records) {
  // Orders reach processes one after the other; the stretch begins for all together.
  if (spans() && communicator_) communicator_->barrier(Deadline::in(config_->options->timeout));
  for (auto& record : records) {
    try {
      take_step(record);
    } catch (const NotFinite&) {
      throw;
    } catch (const Error&) {
      // Others may have met this rank's bad gradient, and aborted, before it came to look at the sum.
      if (!loss_scaling_ && !own_gradients_finite()) throw not_finite("gradient", true);
      throw;
    }
    show(record);
  }
  strategy_->rest();
}

void Rank::show(const measure::StepRecord& record) const {
  if (rank_ != 0 || config_->live == nullptr) return;
  measure::LiveStep& live = *config_->live;
  if (record.images > 0) {
    live.loss.store(record.loss_sum / record.images, std::memory_order_relaxed);
  }
  live.images.fetch_add(record.step_images, std::memory_order_relaxed);
  live.steps.fetch_add(1, std::memory_order_release);
}

Evaluation Rank::evaluate(const std::shared_ptr<const datasets::Dataset>& share) {
  Evaluation sums;
  if (share->size() == 0) return sums;
  datasets::PipelineConfig in_order = pipeline_config();
  in_order.dataset = share;
  // Record numbers are those of the training set.
  if (in_order.content == datasets::BatchContent::records) in_order.content = datasets::BatchContent::bytes;
  in_order.shuffle = 0;
  const auto most = static_cast<std::size_t>(assignment_.max_batch);
  in_order.global_batch = static_cast<int>(std::min(most, share->size()));
  in_order.keep_last = true;
  in_order.rank = 0;
  in_order.replicas = 1;
  in_order.accumulate = 1;
  in_order.augment = false;
  const auto pipeline = datasets::make_pipeline(in_order);
  double correct = 0.0;
  for (int step = 0; step < pipeline->steps_per_epoch(); ++step) {
    poll();
    const backend::Batch batch = batch_of(pipeline->next());
    const backend::BatchResult result =
        strategy_->computes() ? strategy_->evaluate(batch) : replica_->evaluate(batch);
    sums.loss += result.loss_sum;
    sums.images += result.count;
    correct += result.correct;
  }
  sums.accuracy = correct;
  return assignment_.counts ? sums : Evaluation{};
}

double Rank::stamp_seconds() {
  constexpr int repeats = 2000;
  const TimePoint begin = Clock::now();
  for (int i = 0; i < repeats; ++i) replica_->mark();
  return seconds(Clock::now() - begin) / repeats;
}

}  // namespace dtrain::train
