#include <algorithm>
#include <cmath>

#include "train/batch_of.hpp"
#include "train/rank.hpp"
#include "train/rank_rules.hpp"

// One step of a rank: its micro-steps, what is enqueued for each, and what became of it.
namespace dtrain::train {
namespace {

using config::Phase;

constexpr int slot = 0;  // one micro-batch in flight

}  // namespace

void Rank::take_step(measure::StepRecord& record) {
  whole_.reset();
  const double scale = loss_scale_.scale;
  stamps_->begin(strategy_.get());
  strategy_->before_step();
  compute_gradients(record, scale);
  prefetch();
  wait_for_device();

  const backend::BatchResult result = step_result();
  record.loss_sum = result.loss_sum;
  record.correct = result.correct;
  const strategy::RankStrategy::StepReport report = strategy_->report();
  stamps_->resolve(record, report.communicated);
  record.staleness = report.staleness;
  record.dropped = report.dropped;
  const backend::StepOutcome outcome = step_outcome();
  record.skipped = !outcome.applied;
  last_scale_ = scale;
  if (!std::isfinite(record.loss_sum)) throw not_finite("loss", true);
  if (outcome.applied && !outcome.weights_finite) throw not_finite("weight", true);
  finish(outcome.applied);
  if (assignment_.counts) return;
  record.images = 0;
  record.loss_sum = 0.0;
  record.correct = 0;
}

backend::BatchResult Rank::step_result() {
  return strategy_->computes() ? strategy_->result() : replica_->result(slot);
}

// All micro-steps, and with the last of them the update.
void Rank::compute_gradients(measure::StepRecord& record, double scale) {
  bool first = true;  // no image of this rank's yet
  const kernels::OptimizerStep update =
      optimizer_step(*config_->options, config_->schedule->learning_rate(step_), scale, updates_);
  for (bool last = false; !last;) {
    poll();
    pass_.delayed = record.step_images == 0;
    if (pass_.delayed) delay(Phase::input);
    const datasets::MicroBatch micro = next_batch();
    last = micro.last_of_step;
    record.step_images = micro.step_images;
    record.images += micro.count;
    pass_.micro.batch = batch_of(micro);
    pass_.micro.step_images = micro.step_images;
    pass_.micro.gradient_scale =
        static_cast<float>(scale / images_of_update(*config_, assignment_, micro.step_images));
    pass_.micro.index = pass_.delayed ? 0 : pass_.micro.index + 1;
    pass_.micro.first = first;
    pass_.micro.last = last;
    pass_.micro.update = update;
    run_micro_step();
    first = first && micro.count == 0;
  }
}

void Rank::run_micro_step() {
  const Stamps::Kind kind{pass_.micro.step_images, pass_.micro.index, pass_.micro.batch.count,
                          pass_.micro.first, pass_.micro.last};
  stamps_->micro_step(kind);
  const std::uint64_t sent = bytes_sent();
  enqueued_ = false;
  const auto work = [this] { enqueue(); };
  replica_->run(pass_.micro, record_, work);
  if (!record_) return;
  if (enqueued_) {
    recorded_bytes_[kind] = bytes_sent() - sent;
  } else {
    replayed_bytes_ += recorded_bytes_[kind];
  }
}

void Rank::enqueue() {
  enqueued_ = true;
  const backend::MicroStep& micro = pass_.micro;
  stamps_->input_ready();
  if (replica_->fused()) return enqueue_fused();
  enqueue_computation();
  stamps_->backward_done();
  if (!micro.last) return;
  if (strategy_->synchronizes_last()) {
    delay(Phase::update);
    strategy_->apply(micro.update);
    stamps_->updated();
    delay(Phase::communication);
    stamps_->arrived();
    strategy_->synchronize();
  } else {
    stamps_->send_held();
    strategy_->synchronize();
    stamps_->communicated();
    delay(Phase::update);
    strategy_->apply(micro.update);
  }
  stamps_->end();
}

void Rank::enqueue_fused() {
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::communication, Phase::update}) {
    if (pass_.delayed) delay(phase);
  }
  replica_->fused_step(pass_.micro);
  stamps_->backward_done();
  if (pass_.micro.last) stamps_->end();
}

void Rank::enqueue_computation() {
  const backend::MicroStep& micro = pass_.micro;
  if (pass_.delayed) delay(Phase::forward);
  if (strategy_->computes()) {
    if (pass_.delayed) delay(Phase::backward);
    return strategy_->compute(micro, *stamps_);
  }
  if (micro.batch.count > 0) replica_->forward(slot, micro.batch);
  stamps_->forward_done();
  if (pass_.delayed) delay(Phase::backward);
  enqueue_backward();
}

backend::StepOutcome Rank::step_outcome() {
  const auto elsewhere = strategy_->outcome();
  return elsewhere ? *elsewhere : replica_->outcome();
}

void Rank::enqueue_backward() {
  const backend::MicroStep& micro = pass_.micro;
  if (micro.batch.count > 0) {
    replica_->backward(slot, micro.gradient_scale, micro.first, micro.last, *stamps_);
  } else if (micro.last) {
    if (micro.first) replica_->clear_gradients();
    const int buckets = static_cast<int>(replica_->buckets().size());
    for (int bucket = 0; bucket < buckets; ++bucket) stamps_->bucket_ready(bucket, {});
  }
}

datasets::MicroBatch Rank::next_batch() {
  if (!prefetched_) return pipeline_->next();
  const datasets::MicroBatch micro = *prefetched_;
  prefetched_.reset();
  return micro;
}

// Hands the next batch over while the device works, if it is there already: waiting for one belongs to the
// step that needs it.
void Rank::prefetch() {
  if (replica_->stream().device < 0 || prefetched_ || !pipeline_->ready()) return;
  const datasets::MicroBatch& micro = pipeline_->next();
  replica_->prefetch(batch_of(micro));
  prefetched_ = micro;
}

void Rank::wait_for_device() {
  const Deadline deadline = Deadline::in(config_->options->timeout);
  if (communicator_) communicator_->synchronize(deadline);
  replica_->synchronize(deadline);
}

// Without a collective the update saw no gradients but this rank's.
bool Rank::own_gradients_finite() {
  const backend::StepOutcome outcome = step_outcome();
  return config_->strategy->communicates() ? outcome.own_finite : outcome.applied;
}

// Every rank saw the same sums, so all decide alike.
void Rank::finish(bool applied) {
  if (!applied && !loss_scaling_) {
    const bool own = !own_gradients_finite();
    throw not_finite(own ? "gradient" : "gradient summed over all ranks", own);
  }
  if (!applied && !loss_scale_.step_overflowed()) {
    throw run_error(fmt::format("gradients overflow even at the smallest loss scale, {:g}", LossScale::floor),
                    "use --precision bf16 or fp32, or a lower --lr");
  }
  if (applied) {
    ++updates_;
    if (loss_scaling_) loss_scale_.step_succeeded();
  }
  ++step_;
}

NotFinite Rank::not_finite(const char* what, bool own) const {
  return {fmt::format("{} is not finite", what),
          fmt::format(
              "lower --lr (it is {:g} in this step) or add --warmup-epochs; if it persists, look at the data",
              config_->schedule->learning_rate(step_)),
          own};
}

}  // namespace dtrain::train
