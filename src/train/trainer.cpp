#include "train/trainer.hpp"

#include <algorithm>
#include <numeric>

#include "measure/calibration.hpp"
#include "measure/noise.hpp"

namespace dtrain::train {
namespace {

class Trainer {
 public:
  Trainer(World& world, const WorldConfig& config, TrainingObserver& observer)
      : world_(&world), config_(&config), options_(config.options), observer_(&observer) {
    if (world.steps_per_epoch() < 1) {
      throw usage_error(fmt::format("a global batch of {} is more than the {} training images",
                                    config.plan.global_batch, config.data.train->size()),
                        "use a smaller --global-batch or --batch-size, or --last-batch keep");
    }
    outcome_.samples.plan = config.plan;
    evaluated_ = config.data.test ? config.data.test : config.data.train;
    if (!config.data.test)
      outcome_.samples.notes.emplace_back("no test set: accuracy is that on training images");
  }

  TrainingOutcome train() {
    resume();
    try {
      while (outcome_.epochs < options_->epochs && !outcome_.seconds_to_target) take_epoch();
    } catch (const Interrupted&) {
      outcome_.interrupted = true;
    }
    if (options_->target_accuracy) outcome_.target_reached = outcome_.seconds_to_target.has_value();
    world_->describe(outcome_.samples);
    outcome_.samples.losses = all_losses();
    return std::move(outcome_);
  }

 private:
  void resume() {
    if (options_->resume.empty() && options_->checkpoint.empty()) return;
    identity_ = identity_of(*options_, config_->plan, *config_->model, *config_->data.train);
    if (options_->resume.empty()) return;
    const Checkpoint checkpoint = read_checkpoint(options_->resume);
    require_same_run(options_->resume, checkpoint.identity, identity_);
    world_->load_state(checkpoint.state);
    outcome_.epochs = static_cast<int>(checkpoint.state.step / world_->steps_per_epoch());
    for (const auto& sample : checkpoint.evaluations) keep(sample);
    earlier_losses_ = checkpoint.losses;
  }

  void take_epoch() {
    const int epoch = outcome_.epochs + 1;
    const int per_epoch = world_->steps_per_epoch();
    const int steps = per_epoch - static_cast<int>(world_->steps_taken() % per_epoch);
    observer_->epoch_begins(epoch, options_->epochs, steps);
    const measure::RoundSample& round = run(steps);
    observer_->evaluation_begins(epoch, evaluated_->size());
    const Evaluation evaluation = world_->evaluate(evaluated_);

    outcome_.epochs = epoch;
    keep({epoch, seconds_so_far() + round.seconds, evaluation.loss, evaluation.accuracy});
    if (!options_->checkpoint.empty()) {
      write_checkpoint(options_->checkpoint,
                       {identity_, world_->save_state(), outcome_.samples.evaluations, all_losses()});
    }
    observer_->epoch_ended({.epoch = epoch,
                            .epochs = options_->epochs,
                            .seconds = round.seconds,
                            .images_per_second = static_cast<double>(round.images) / round.seconds,
                            .training_loss = mean_of_last(steps),
                            .evaluation = evaluation});
  }

  // An epoch is a round: calibrated before and after, off the clock.
  const measure::RoundSample& run(int steps) {
    const double speed_before = measure::calibrate();
    noise_.count_as_own(world_->processes());
    noise_.take_in(world_->conditions());
    noise_.begin();
    const TimePoint begin = Clock::now();
    const measure::StretchRecord stretch = world_->run(steps);
    const double wall = seconds(Clock::now() - begin);
    noise_.end();
    noise_.take_in(world_->conditions());
    measure::RoundSample round = measure::reduce(stretch);
    round.wall_seconds = wall;
    round.calibration_seconds = 0.5 * (speed_before + measure::calibrate());
    outcome_.samples.measured_steps += static_cast<std::uint64_t>(round.steps);
    outcome_.samples.skipped_steps +=
        static_cast<std::uint64_t>(std::ranges::count(stretch.ranks[0], true, &measure::StepRecord::skipped));
    outcome_.samples.noise = noise_.reading();
    return outcome_.samples.rounds.emplace_back(std::move(round));
  }

  void keep(const measure::EvaluationSample& sample) {
    outcome_.samples.evaluations.push_back(sample);
    const bool reached = options_->target_accuracy && sample.accuracy >= *options_->target_accuracy;
    if (reached && !outcome_.seconds_to_target) outcome_.seconds_to_target = sample.seconds;
  }

  // Of training.
  double seconds_so_far() const {
    return outcome_.samples.evaluations.empty() ? 0.0 : outcome_.samples.evaluations.back().seconds;
  }

  std::vector<double> all_losses() const {
    std::vector<double> losses = earlier_losses_;
    losses.insert(losses.end(), world_->losses().begin(), world_->losses().end());
    return losses;
  }

  double mean_of_last(int steps) const {
    const auto& losses = world_->losses();
    return std::accumulate(losses.end() - steps, losses.end(), 0.0) / steps;
  }

  World* world_;
  const WorldConfig* config_;
  const config::Options* options_;
  TrainingObserver* observer_;
  std::shared_ptr<const datasets::Dataset> evaluated_;
  CheckpointIdentity identity_;
  std::vector<double> earlier_losses_;  // of the steps before this run went on
  measure::NoiseMeter noise_;
  TrainingOutcome outcome_;
};

}  // namespace

TrainingOutcome train(World& world, const WorldConfig& config, TrainingObserver& observer) {
  return Trainer(world, config, observer).train();
}

}  // namespace dtrain::train
