#include <unistd.h>

#include <algorithm>

#include "base/log.hpp"
#include "cli/baseline.hpp"
#include "cli/command.hpp"
#include "cli/delivery.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/run_in_job.hpp"
#include "cli/side_by_side.hpp"
#include "cli/training_flags.hpp"
#include "cli/tune.hpp"
#include "measure/protocol.hpp"
#include "measure/trace.hpp"
#include "report/files.hpp"
#include "report/live_display.hpp"

namespace dtrain::cli {

namespace {

// Shows what is measured and keeps it safe while measuring goes on: the result file after every round, the
// trace after every stretch.
class Keeper final : public measure::Observer {
 public:
  Keeper(report::Result& result, const Session& session, std::shared_ptr<const measure::LiveStep> live)
      : result_(result),
        options_(session.options),
        display_(std::move(live), static_cast<int>(session.plan.runs.size()), STDERR_FILENO, options_.quiet) {
    if (!options_.trace.empty()) trace_.emplace(options_.trace);
  }

  void round_begins(const config::RunPlan& plan, int round, int rounds, bool warming_up) override {
    display_.round_begins(plan, round, rounds, warming_up);
  }

  void round_ended(const measure::Samples& samples, std::size_t run, int round, int rounds) override {
    display_.round_ended(samples, run, round, rounds);
    keep(samples);
  }

  void run_failed(const measure::Samples& samples, std::size_t run, int round, int rounds) override {
    display_.run_failed(samples, run, round, rounds);
    keep(samples);
  }

  void stretch_ended(const config::RunPlan& plan, int round, const measure::StretchRecord& stretch) override {
    if (trace_) trace_->append(plan.id, round, stretch);
  }

 private:
  void keep(const measure::Samples& samples) {
    if (!is_asked(options_, "json")) return;
    result_.samples = samples;
    summarise(result_);
    try {
      report::write_outputs(options_.out, {"json"}, result_);
    } catch (const Error& error) {
      display_.message(fmt::format("warning: {}; measuring goes on", error.what()));
    }
  }

  report::Result& result_;
  const config::Options& options_;
  report::LiveDisplay display_;
  std::optional<measure::TraceWriter> trace_;
};

const config::RunPlan& run_of(const Session& session, const std::string& id) {
  return *std::ranges::find(session.plan.runs, id, &config::RunPlan::id);
}

// The same in every process of a job.
train::WorldConfig bench_world(const Session& session, const std::string& id, const std::atomic<bool>& stop) {
  const config::RunPlan& run = run_of(session, id);
  train::WorldConfig world = world_config(session, run, 0);
  world.stop = &stop;
  const bool largest = run.replicas == session.plan.runs.back().replicas && !run.exact;
  if (largest && run.base == config::RunPlan::Base::none) world.delays = session.options.injected_delays;
  return world;
}

measure::SubjectMaker subject_maker(const Session& session, std::shared_ptr<measure::LiveStep> live,
                                    const std::atomic<bool>& stop) {
  return [&session, live = std::move(live), &stop](const config::RunPlan& run) {
    train::WorldConfig world = bench_world(session, run.id, stop);
    world.live = live;
    return std::make_unique<train::World>(std::move(world));
  };
}

void require_no_failure(const measure::Samples& samples) {
  for (const auto& run : samples.runs) {
    if (run.failure.empty()) continue;
    throw run_error(fmt::format("{} failed: {}", run.plan.id, run.failure),
                    "what the other runs measured is in the report");
  }
}

std::string describe_rounds(const config::Options& options) {
  const auto steps = [](const std::optional<int>& count, const std::string& otherwise) {
    return count ? fmt::format("{} steps", *count) : otherwise;
  };
  return fmt::format("{} rounds of every run, in turns; a round: warm-up {}, then {}", options.rounds,
                     steps(options.warmup, "until steady"),
                     steps(options.steps, fmt::format("{:g} s", options.min_time.count())));
}

class BenchCommand final : public Command {
 public:
  std::string name() const override { return "bench"; }
  std::string summary() const override { return "Measures throughput and scaling, 1 to N replicas in turns"; }
  std::string footer() const override {
    return "Examples:\n"
           "  dtrain bench --strategy mirrored --gpus 4        1, 2 and 4 replicas\n"
           "  dtrain bench --replicas 1..4 --global-batch 256  strong scaling\n"
           "  dtrain bench --strategy all --gpus 2              every strategy on the same work\n"
           "  dtrain bench --gpus 2 --inject-delay rank=1,phase=input,ms=10\n"
           "Writes result.json, result.csv, result.md and report.html; `dtrain report` shows them again.";
  }

  void declare(Flags& flags) override {
    declare_world_flags(flags, options_);
    declare_cluster_flags(flags, options_);
    declare_training_flags(flags, options_);
    declare_data_flags(flags, options_);
    declare_measuring_flags(flags, options_);
    declare_tune_flag(flags, options_);
    declare_baseline_flags(flags, options_);
    declare_output_flags(flags, options_);
    declare_run_flags(flags, options_, config_file_);
  }

  void take_given(std::set<std::string> flags) override { given_ = std::move(flags); }

  ExitCode run(const std::string& command_line) override {
    set_up_log(options_.quiet);
    if (options_.formats.empty()) options_.formats = all_formats();
    if (given_.contains("--max-regress") && options_.baseline.empty()) {
      throw usage_error("--max-regress: there is no baseline that it could be a limit for",
                        "add --baseline FILE");
    }
    if (options_.strategy == all_strategies && options_.tune) {
      throw usage_error("--tune searches flags for one strategy, and --strategy all measures several",
                        "name one strategy, or leave --tune out");
    }
    const InterruptGuard interrupt;
    Tuning tuning(open_session(options_, config::make_bench_plan), given_);
    const Session& opened = tuning.opened();
    if (opened.job.place.evaluator) return say_evaluator_is_idle(name());
    if (options_.dry_run && !opened.job.follows()) read_baseline(opened.options);
    if (options_.dry_run) return show_plan(opened, describe_rounds(opened.options), tuning.describe());
    const auto make = [&](const std::string& run) {
      return bench_world(tuning.session_of(run), run, interrupt.stop());
    };
    return run_in_job(opened, make, [&] {
      if (!tuning.search(command_line, make, interrupt.stop())) return ExitCode::interrupted;
      return lead(tuning.session(), command_line, interrupt, tuning.note());
    });
  }

 private:
  static ExitCode lead(const Session& session, const std::string& command_line,
                       const InterruptGuard& interrupt, const std::string& note) {
    auto baseline = read_baseline(session.options);
    report::Result result = start_result(session, command_line);
    if (baseline) warn_of_other_work(*baseline, result);
    show_header(result, session.plan.runs);
    measure_all(session, result, interrupt.stop());
    if (!note.empty()) result.samples.runs.back().notes.push_back(note);
    finish_result(result, session);
    deliver(result, true);
    if (interrupt.stopped()) {
      log_warning("interrupted: what was measured is kept, marked incomplete");
      return ExitCode::interrupted;
    }
    require_no_failure(result.samples);
    return baseline ? judge_by_baseline(std::move(*baseline), result) : ExitCode::fine;
  }

  static void measure_all(const Session& session, report::Result& result, const std::atomic<bool>& stop) {
    const auto& options = session.options;
    const auto live = std::make_shared<measure::LiveStep>();
    Keeper keeper(result, session, live);
    const measure::ProtocolConfig protocol{.rounds = options.rounds,
                                           .warmup_steps = options.warmup,
                                           .steps = options.steps,
                                           .min_time = options.min_time,
                                           .steady = {}};
    result.samples =
        measure::measure(session.plan.runs, subject_maker(session, live, stop), protocol, keeper, stop);
  }

  config::Options options_;
  std::string config_file_;
  std::set<std::string> given_;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace dtrain::cli
