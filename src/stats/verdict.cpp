#include "stats/verdict.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "base/text.hpp"

namespace dtrain::stats {

namespace {

using config::RunPlan;
using measure::RunSamples;

constexpr double small_loss_percent = 3.0;   // below it nothing limits scaling
constexpr double noticed_above_full = 0.02;  // efficiency beyond 100 % that is no rounding
constexpr double large_residual_percent = 5.0;
constexpr double costly_measuring = 0.01;
constexpr double clocks_differ = 0.05;            // of a round
constexpr double least_seconds_for_clocks = 0.5;  // threads wake up and go to sleep around a round

// A thing that costs time, in words that follow "is".
struct Cause {
  std::string what;
  double percent = 0.0;  // of the step
};

std::string in_words(const std::string& part) {
  if (part == "input") return "waiting for input";
  if (part == "slower computation") return "computation that is slower than on one replica";
  if (part == "slower program") {
    return "the compiled step, whose computation and sums over devices are not told apart";
  }
  if (part == "stragglers") return "waiting for whichever rank comes last";
  if (part == "communication") return "exposed communication";
  if (part == "update and host") return "the update and work between the phases";
  return "time that no phase accounts for";
}

// The part of the budget that holds a phase of the step.
std::string part_of(config::Phase phase) {
  switch (phase) {
    case config::Phase::input:
      return "input";
    case config::Phase::forward:
    case config::Phase::backward:
      return "slower computation";
    case config::Phase::communication:
      return "communication";
    case config::Phase::update:
      return "update and host";
  }
  return "";
}

std::string describe(const Straggler& straggler) {
  return fmt::format(
      "rank {}, last to arrive in {:.0f} % of steps, {} late, {}", straggler.rank,
      100.0 * straggler.last_share, format_duration(straggler.seconds_late),
      straggler.between_phases ? "by work between the phases" : "in " + config::name(straggler.phase));
}

// The straggler costs what the others wait for it and, in the mean over ranks, its own extra time.
Cause largest_cause(const RunSamples& run, const RunSummary& summary) {
  const LossBudget& budget = *summary.budget;
  std::vector<Cause> causes;
  double own = 0.0;
  if (summary.straggler) {
    own = 100.0 * summary.straggler->seconds_late / budget.measured_seconds / run.plan.replicas;
  }
  for (const auto& part : budget.parts) {
    const bool waiting = part.name == "stragglers";
    const bool its_phase = summary.straggler && part.name == (summary.straggler->between_phases
                                                                  ? "update and host"
                                                                  : part_of(summary.straggler->phase));
    if (waiting && summary.straggler) {
      causes.push_back({describe(*summary.straggler), part.percent + own});
    } else {
      causes.push_back({in_words(part.name), part.percent - (its_phase ? own : 0.0)});
    }
  }
  return *std::max_element(causes.begin(), causes.end(),
                           [](const Cause& a, const Cause& b) { return a.percent < b.percent; });
}

const RunSamples* strategy_base(const measure::Samples& samples, const RunSamples& run) {
  for (const auto& other : samples.runs) {
    if (other.plan.base == RunPlan::Base::strategy && other.plan.strategy == run.plan.strategy) return &other;
  }
  return nullptr;
}

// "mirrored-4: the rate drifts ...", of the run or of its base.
std::optional<std::string> unsteadiness(const SummaryInput& input, const std::vector<RunSummary>& runs,
                                        std::size_t target) {
  const auto& all = input.samples->runs;
  const RunSamples* base = strategy_base(*input.samples, all[target]);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i != target && &all[i] != base) continue;
    if (!runs[i].steadiness.stable) {
      return fmt::format("{}: {}", all[i].plan.id, runs[i].steadiness.reasons.front());
    }
  }
  return std::nullopt;
}

std::string scaling_verdict(const SummaryInput& input, const std::vector<RunSummary>& runs,
                            std::size_t target) {
  const RunSamples& run = input.samples->runs[target];
  const RunSummary& summary = runs[target];
  std::string text = fmt::format("at N = {}, {} scaling reaches {:.1f} % efficiency", run.plan.replicas,
                                 config::name(input.scaling), 100.0 * summary.efficiency->median);
  if (!summary.budget) {
    text += "; the phases of its steps were not measured, so that nothing says what limits it";
  } else if (const Cause cause = largest_cause(run, summary); cause.percent >= small_loss_percent) {
    text += fmt::format("; what limits it most is {} ({:.1f} % of the step)", cause.what, cause.percent);
  } else if (cause.percent > 0.0) {
    text += fmt::format("; nothing limits it much: the largest loss is {} ({:.1f} % of the step)", cause.what,
                        cause.percent);
  } else {
    text += "; it loses nothing against one replica";
  }
  if (const auto why = unsteadiness(input, runs, target))
    text = "unstable, so take with care: " + text + "; " + *why;
  return text;
}

std::string without_scaling(const SummaryInput& input, const std::vector<RunSummary>& runs) {
  const auto& all = input.samples->runs;
  for (std::size_t i = all.size(); i-- > 0;) {
    if (all[i].plan.base != RunPlan::Base::none || all[i].plan.replicas < 2) continue;
    return fmt::format("nothing can be said about scaling to N = {}: {}", all[i].plan.replicas,
                       runs[i].efficiency_reason);
  }
  for (const auto& run : all) {
    if (!run.failure.empty()) return fmt::format("{} failed: {}", run.plan.id, run.failure);
  }
  const bool measured =
      std::any_of(all.begin(), all.end(), [](const auto& run) { return !run.rounds.empty(); });
  return measured ? "only one replica was measured, so that nothing can be said about scaling: ask for more "
                    "with --gpus or --replicas"
                  : "nothing was measured";
}

// What became of the runs with more replicas than the one the verdict is about.
std::string beyond(const measure::Samples& samples, std::size_t target) {
  std::string text;
  for (std::size_t i = target + 1; i < samples.runs.size(); ++i) {
    const RunSamples& run = samples.runs[i];
    if (run.plan.replicas <= samples.runs[target].plan.replicas) continue;
    const char* what = !run.failure.empty() ? "failed"
                       : run.plan.simulated ? "is simulated and says nothing about scaling"
                       : run.rounds.empty() ? "was not measured"
                                            : "has no efficiency";
    text += fmt::format("; N = {} {}", run.plan.replicas, what);
  }
  return text;
}

// The host's clock around a round against the stamps of its steps, where they differ most.
void warn_of_clocks(const RunSamples& run, std::vector<std::string>& out) {
  const measure::RoundSample* worst = nullptr;
  double most = 0.0;
  for (const auto& round : run.rounds) {
    if (round.wall_seconds < least_seconds_for_clocks) continue;
    const double share = std::abs(round.wall_seconds - round.seconds) / round.wall_seconds;
    if (share <= std::max(most, clocks_differ)) continue;
    most = share;
    worst = &round;
  }
  if (worst == nullptr) return;
  out.push_back(fmt::format(
      "{}: the steps of a round took {} by the device's clock, but the round took {} by the host's ({:.1f} % "
      "apart): {}",
      run.plan.id, format_duration(worst->seconds), format_duration(worst->wall_seconds), 100.0 * most,
      worst->seconds < worst->wall_seconds
          ? "the rest went by before the first step began or after the last one ended (threads that got no "
            "core in time); use a longer --min-time"
          : "the device's clock cannot be trusted here, so that no phase can; compare images over the host's "
            "time"));
}

void warn_of_run(const RunSamples& run, const RunSummary& summary, std::vector<std::string>& out) {
  const std::string& id = run.plan.id;
  if (!run.failure.empty()) {
    out.push_back(fmt::format("{} failed after {} rounds: {}", id, run.rounds.size(), run.failure));
  }
  if (!run.weights_agree) {
    out.push_back(
        id +
        ": ranks ended with different weights: they did not train one model, so that its rate means "
        "little; run `dtrain verify`");
  }
  if (run.skipped_steps > 0) {
    out.push_back(
        fmt::format("{}: {} of {} steps were skipped after an overflow; their images count as consumed", id,
                    run.skipped_steps, run.measured_steps));
  }
  if (summary.efficiency &&
      (summary.efficiency->low > 1.0 || summary.efficiency->median > 1.0 + noticed_above_full)) {
    out.push_back(
        fmt::format("{}: {:.1f} % efficiency is more than there can be without help: its base may have been "
                    "slowed (other "
                    "processes, heat), or a smaller share of the work fits a cache (likely under strong "
                    "scaling); compare "
                    "with the plain base and measure again",
                    id, 100.0 * summary.efficiency->median));
  }
  if (summary.budget && !summary.budget->arrivals_measured && !summary.budget->fused) {
    out.push_back(id +
                  ": arrivals at the collective were not measured, so that waiting for stragglers is part of "
                  "communication");
  }
  if (summary.budget && std::abs(summary.budget->parts.back().percent) > large_residual_percent) {
    out.push_back(fmt::format("{}: {:.1f} % of the step is not accounted for by any phase (residual)", id,
                              summary.budget->parts.back().percent));
  }
  warn_of_clocks(run, out);
  if (summary.measuring_share > costly_measuring) {
    out.push_back(fmt::format("{}: measuring itself costs {:.1f} % of the step: use a larger batch", id,
                              100.0 * summary.measuring_share));
  }
}

}  // namespace

std::string verdict(const SummaryInput& input, const std::vector<RunSummary>& runs) {
  std::optional<std::size_t> target;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const int replicas = input.samples->runs[i].plan.replicas;
    if (!runs[i].efficiency || replicas < 2) continue;
    if (!target || replicas >= input.samples->runs[*target].plan.replicas) target = i;
  }
  std::string text = target ? scaling_verdict(input, runs, *target) + beyond(*input.samples, *target)
                            : without_scaling(input, runs);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text + ".";
}

std::vector<std::string> warnings(const SummaryInput& input, const std::vector<RunSummary>& runs) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < runs.size(); ++i) warn_of_run(input.samples->runs[i], runs[i], out);
  return out;
}

}  // namespace dtrain::stats
