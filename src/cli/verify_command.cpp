#include <algorithm>

#include "base/log.hpp"
#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/run_in_job.hpp"
#include "cli/training_flags.hpp"
#include "train/equivalence.hpp"

namespace dtrain::cli {

namespace {

constexpr int fewest_replicas = 2;  // one replica is equal to itself: a check that cannot fail

config::Plan make_verify_plan(const config::Options& options, const config::Inventory& inventory,
                              const config::SharesOf& shares) {
  config::Plan plan = config::make_train_plan(options, inventory, shares);
  if (!options.replicas.empty() || plan.runs.back().replicas >= fewest_replicas ||
      options.strategy == "single") {
    return plan;
  }
  config::Options two = options;
  two.replicas = {fewest_replicas};
  return config::make_train_plan(two, inventory, shares);
}

std::string render(const train::EquivalenceReport& report) {
  std::string text = fmt::format("{} with {} replicas against one replica, global batch {}\n",
                                 report.strategy, report.replicas, report.global_batch);
  if (!report.note.empty()) text += report.note + "\n";
  std::size_t width = 5;
  for (const auto& check : report.checks) width = std::max(width, check.name.size());
  text += fmt::format("  {:<{}}  {:>12}  {:>10}  result\n", "check", width, "measured", "limit");
  for (const auto& check : report.checks) {
    text +=
        fmt::format("  {:<{}}  {:>12.3e}  {:>10.0e}  {}\n", check.name, width, check.measured, check.limit,
                    check.passed ? "equal" : (report.expected ? "DIFFERENT" : "different, as expected"));
  }
  return text;
}

class VerifyCommand final : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string summary() const override {
    return "Proves that N replicas train as one does with the same global batch";
  }
  std::string footer() const override {
    return "Trains both under SGD in fp32 and compares gradients, every loss and weights; docs/metrics.md "
           "has the "
           "limits.\n"
           "Exit 5 when a check fails.\n\nExample:\n  dtrain verify --strategy mirrored --gpus 4";
  }

  void declare(Flags& flags) override {
    declare_world_flags(flags, options_);
    declare_cluster_flags(flags, options_);
    declare_training_flags(flags, options_);
    declare_data_flags(flags, options_);
    flags.group("Checking");
    flags.value("--steps", "N", fmt::format("Steps to compare [{}]", limits_.steps),
                [this](const std::string& text) {
                  limits_.steps = config::parse_integer(text, "--steps", 1, 1'000'000);
                });
    flags.group("Output");
    flags.toggle("--quiet", "Only warnings and results", options_.quiet);
    declare_run_flags(flags, options_, config_file_);
  }

  ExitCode run(const std::string&) override {
    set_up_log(options_.quiet);
    const InterruptGuard interrupt;
    const Session session = open_session(options_, make_verify_plan);
    if (session.job.place.evaluator) return say_evaluator_is_idle(name());
    if (options_.dry_run)
      return show_plan(session,
                       fmt::format("{} steps under SGD in fp32, against one replica", limits_.steps));
    auto world = world_config(session, session.plan.runs.front(), 0);
    world.stop = &interrupt.stop();
    config::Options options;
    const auto make = [&](const std::string&) { return train::world_to_verify(world, options, limits_); };
    return run_in_job(session, make, [&] { return verify(world); });
  }

 private:
  ExitCode verify(const train::WorldConfig& world) const {
    const auto report = train::verify_equivalence(world, limits_);
    print_out(render(report));
    if (report.passed()) return ExitCode::fine;
    const auto failed =
        std::find_if(report.checks.begin(), report.checks.end(), [](const auto& c) { return !c.passed; });
    throw run_error(
        fmt::format("{}: {} differ by {:.3e}, more than {:.0e}", report.strategy, failed->name,
                    failed->measured, failed->limit),
        "replicas do not train as one device does: trust no accuracy of this strategy until they do");
  }

  config::Options options_;
  train::EquivalenceLimits limits_;
  std::string config_file_;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace dtrain::cli
