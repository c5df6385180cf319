#include <algorithm>

#include "base/text.hpp"
#include "cli/layer_table.hpp"
#include "cli/run_in_job.hpp"
#include "model/find_model.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::cli {

namespace {

std::string placement(const config::RunPlan& run) {
  if (!run.devices.empty()) return fmt::format("GPU {}", fmt::join(run.devices, " "));
  if (run.cores.empty()) return "not pinned";
  std::vector<std::string> shares;
  for (const auto& share : run.cores) {
    std::vector<std::string> cores;
    cores.reserve(share.size());
    for (const int core : share) cores.push_back(std::to_string(core));
    shares.push_back(join(cores, "+"));
  }
  return "cores " + join(shares, " ");
}

std::string batch_text(const config::RunPlan& run) {
  const auto [low, high] = std::minmax_element(run.replica_batch.begin(), run.replica_batch.end());
  return *low == *high ? fmt::format("{}", *high) : fmt::format("{} or {}", *high, *low);
}

// What the run's strategy has to say before anything is measured.
std::string facts_text(const Session& session, const config::RunPlan& run) {
  std::string text;
  for (const auto& fact :
       strategy::strategies()
           .at(run.strategy)
           .value->facts({.model = session.model.get(), .options = &session.options, .plan = &run}, {})) {
    if (text.empty()) text = fmt::format("\n  {}\n", run.id);
    text += fmt::format("    {:<24}{:>10.4g} {:<7}{}\n", fact.name, fact.value, fact.unit, fact.meaning);
  }
  return text;
}

}  // namespace

std::string describe_plan(const Session& session, const std::string& work) {
  const auto& options = session.options;
  std::string text = "dry run: nothing is trained or written\n";
  const auto line = [&](const std::string& label, const std::string& value) {
    text += fmt::format("  {:<12}{}\n", label, value);
  };
  line("device", fmt::format("{} ({})", session.inventory.device, session.inventory.device_reason));
  line("launcher", session.job.place.source);
  line("model", fmt::format("{}, {} parameters, {}", session.model->name, session.model->parameter_count,
                            config::name(options.precision)));
  line("training", fmt::format("{}, lr {}, schedule {}, seed {}", options.optimizer, options.learning_rate,
                               options.schedule, options.seed));
  line("data", fmt::format("{}, {} images", session.data.train->name(), session.data.train->size()));
  line("scaling", fmt::format("{}, {} micro-step{} a step", config::name(session.plan.scaling),
                              options.accumulate, options.accumulate == 1 ? "" : "s"));
  line("work", work);
  if (!options.formats.empty())
    line("output", fmt::format("{} ({})", options.out, join(options.formats, ", ")));
  if (model::is_model_file(options.model)) text.append("\n").append(layer_table(*session.model));
  text += fmt::format("\n  {:<16}{:>9}{:>15}{:>14}{:>16}  {}\n", "run", "replicas", "replica batch",
                      "global batch", "memory each", "placement");
  for (const auto& run : session.plan.runs) {
    const std::size_t bytes = replica_bytes(session, run);
    text += fmt::format("  {:<16}{:>9}{:>15}{:>14}{:>16}  {}{}\n", run.id, run.replicas, batch_text(run),
                        run.global_batch, format_bytes(static_cast<double>(bytes)), placement(run),
                        run.simulated ? "; simulated: " + run.simulated_reason : "");
  }
  for (const auto& run : session.plan.runs) text += facts_text(session, run);
  return text;
}

}  // namespace dtrain::cli
