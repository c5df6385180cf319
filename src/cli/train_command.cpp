#include <unistd.h>

#include <algorithm>

#include "base/log.hpp"
#include "cli/command.hpp"
#include "cli/delivery.hpp"
#include "cli/evaluator.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/run_in_job.hpp"
#include "cli/training_flags.hpp"
#include "report/live_display.hpp"
#include "train/trainer.hpp"

namespace dtrain::cli {

namespace {

class EpochDisplay final : public train::TrainingObserver {
 public:
  EpochDisplay(report::LiveDisplay& display, std::string run) : display_(display), run_(std::move(run)) {}
  void epoch_begins(int epoch, int epochs, int) override { display_.epoch_begins(run_, epoch, epochs); }
  void evaluation_begins(int, std::size_t) override {}
  void epoch_ended(const train::EpochReport& report) override {
    display_.epoch_ended(
        report.images_per_second,
        fmt::format("training loss {:.4f}  loss {:.4f}  accuracy {:.2f} %  {:.1f} s", report.training_loss,
                    report.evaluation.loss, 100.0 * report.evaluation.accuracy, report.seconds));
  }

 private:
  report::LiveDisplay& display_;
  std::string run_;
};

double best_accuracy(const measure::RunSamples& samples) {
  double best = 0.0;
  for (const auto& evaluation : samples.evaluations) best = std::max(best, evaluation.accuracy);
  return best;
}

class TrainCommand final : public Command {
 public:
  std::string name() const override { return "train"; }
  std::string summary() const override {
    return "Trains for epochs or to an accuracy, and reports the time it took";
  }
  std::string footer() const override {
    return "Example:\n  dtrain train --model cnn --epochs 10 --target-accuracy 70% --checkpoint "
           "cnn.checkpoint\n"
           "Exit 5 when the target accuracy is missed.";
  }

  void declare(Flags& flags) override {
    declare_world_flags(flags, options_);
    declare_cluster_flags(flags, options_);
    declare_training_flags(flags, options_);
    declare_data_flags(flags, options_);
    declare_epoch_flags(flags, options_);
    declare_output_flags(flags, options_);
    declare_run_flags(flags, options_, config_file_);
  }

  ExitCode run(const std::string& command_line) override {
    set_up_log(options_.quiet);
    if (options_.formats.empty()) options_.formats = all_formats();
    const InterruptGuard interrupt;
    const Session session = open_session(options_, config::make_train_plan);
    if (options_.dry_run)
      return show_plan(session, fmt::format("{} epochs of {} steps", session.options.epochs,
                                            steps_per_epoch(session, session.plan.runs.front())));
    if (session.job.place.evaluator) return evaluate_checkpoints(session, interrupt.stop());
    const auto make = [&](const std::string&) { return train_world(session, interrupt.stop()); };
    return run_in_job(session, make, [&] { return lead(session, command_line, interrupt); });
  }

 private:
  ExitCode lead(const Session& session, const std::string& command_line,
                const InterruptGuard& interrupt) const {
    report::Result result = start_result(session, command_line);
    const auto outcome = train_all(session, interrupt.stop());
    result.samples.runs = {outcome.samples};
    result.samples.complete = !outcome.interrupted;
    finish_result(result, session);
    deliver(result, false);
    if (outcome.interrupted) {
      log_warning("interrupted: finished epochs are kept, marked incomplete");
      return ExitCode::interrupted;
    }
    require_target(outcome);
    return ExitCode::fine;
  }

  // The same in every process of a job.
  static train::WorldConfig train_world(const Session& session, const std::atomic<bool>& stop) {
    const auto& run = session.plan.runs.front();
    const std::int64_t steps = std::int64_t{session.options.epochs} * steps_per_epoch(session, run);
    train::WorldConfig config = world_config(session, run, steps);
    config.stop = &stop;
    return config;
  }

  static train::TrainingOutcome train_all(const Session& session, const std::atomic<bool>& stop) {
    const auto& run = session.plan.runs.front();
    const auto live = std::make_shared<measure::LiveStep>();
    train::WorldConfig config = train_world(session, stop);
    config.live = live;
    report::LiveDisplay display(live, 1, STDERR_FILENO, session.options.quiet);
    EpochDisplay epochs(display, run.id);
    train::World world(config);
    return train::train(world, config, epochs);
  }

  void require_target(const train::TrainingOutcome& outcome) const {
    if (outcome.target_reached.value_or(true)) {
      if (outcome.seconds_to_target) {
        log_info(
            fmt::format("target accuracy reached after {:.2f} s of training", *outcome.seconds_to_target));
      }
      return;
    }
    throw run_error(fmt::format("target accuracy {:g} % missed: best {:.2f} % in {} epochs",
                                100.0 * *options_.target_accuracy, 100.0 * best_accuracy(outcome.samples),
                                outcome.epochs),
                    "train for more --epochs, or change --lr, --schedule or --model");
  }

  config::Options options_;
  std::string config_file_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace dtrain::cli
