#include "report/findings.hpp"

#include "base/text.hpp"
#include "report/format.hpp"

namespace dtrain::report {

using Base = config::RunPlan::Base;

const measure::RunSamples* largest_measured(const Result& result, std::size_t& index) {
  const measure::RunSamples* found = nullptr;
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    const auto& run = result.samples.runs[i];
    if (run.rounds.empty()) continue;
    const auto order = [&](const measure::RunSamples& of, std::size_t at) {
      return std::pair(of.plan.replicas, summary_of(result, at).images_per_second.median);
    };
    if (found != nullptr && order(run, i) < order(*found, index)) continue;
    found = &run;
    index = i;
  }
  return found;
}

std::vector<std::string> straggler_lines(const Result& result) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    const auto& straggler = summary_of(result, i).straggler;
    if (!straggler) continue;
    lines.push_back(fmt::format(
        "{}: rank {} arrives last in {} of steps, {} ms after the median rank, "
        "and loses it {}",
        result.samples.runs[i].plan.id, straggler->rank, percent(straggler->last_share * 100),
        milliseconds(straggler->seconds_late),
        straggler->between_phases ? "between the phases" : "in " + config::name(straggler->phase)));
  }
  return lines;
}

std::vector<std::string> failure_lines(const Result& result) {
  std::vector<std::string> lines;
  for (const auto& run : result.samples.runs) {
    if (!run.failure.empty()) lines.push_back(run.plan.id + " failed: " + run.failure);
  }
  return lines;
}

std::vector<std::string> note_lines(const Result& result) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    const auto& run = result.samples.runs[i];
    for (const auto& note : run.notes) lines.push_back(run.plan.id + ": " + note);
    if (run.skipped_steps > 0) {
      lines.push_back(fmt::format("{}: {} steps skipped after an overflow, on all ranks alike", run.plan.id,
                                  count(static_cast<std::int64_t>(run.skipped_steps))));
    }
    const auto& summary = summary_of(result, i);
    if (run.plan.base == Base::none && !summary.efficiency && run.failure.empty() &&
        !summary.efficiency_reason.empty()) {
      lines.push_back(run.plan.id + ": no efficiency, because " + summary.efficiency_reason);
    }
  }
  return lines;
}

std::string measuring_line(const Result& result) {
  std::size_t index = 0;
  const auto* run = largest_measured(result, index);
  if (run == nullptr || run->stamps_per_step == 0) return {};
  const double cost = summary_of(result, index).measuring_share * 100;
  return fmt::format("{} % of a step at {} ({} a rank, {:.0f} ns each)",
                     cost < 0.001 ? "less than 0.001" : fmt::format("{:.3f}", cost), run->plan.id,
                     count(run->stamps_per_step, "stamp"), run->stamp_seconds * 1e9);
}

std::string agreement_line(const Result& result) {
  std::vector<std::string> differing;
  for (const auto& run : result.samples.runs) {
    if (!run.weights_agree) differing.push_back(run.plan.id);
  }
  if (!differing.empty())
    return "ranks hold DIFFERENT weights after the last step in " + join(differing, ", ");
  std::size_t index = 0;
  const auto* run = largest_measured(result, index);
  if (run == nullptr || run->weights_hash.empty()) return {};
  std::string line =
      fmt::format("all ranks hold the same weights in every run ({}: {})", run->plan.id, run->weights_hash);
  if (!run->losses.empty()) {
    line += fmt::format("; its loss went from {:.4f} to {:.4f} in {}", run->losses.front(),
                        run->losses.back(), count(static_cast<std::int64_t>(run->losses.size()), "step"));
  }
  return line;
}

std::vector<std::string> caveats(const Result& result) {
  std::vector<std::string> out;
  std::vector<std::string> simulated;
  std::vector<std::string> unsteady;
  std::string why;
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    const auto& run = result.samples.runs[i];
    if (run.plan.simulated) {
      simulated.push_back(run.plan.id);
      why = run.plan.simulated_reason;
    }
    if (!summary_of(result, i).steadiness.stable) unsteady.push_back(run.plan.id);
  }
  if (!result.samples.complete) {
    out.emplace_back(
        "Incomplete: the measurement was stopped or is still going on; run it to its end before "
        "comparing.");
  }
  if (!simulated.empty()) {
    out.push_back(
        fmt::format("Simulated: {} - {}. These rows are no measure of scaling; take as many devices or "
                    "cores as replicas for that.",
                    join(simulated, ", "), why.empty() ? "replicas share a device or core" : why));
  }
  if (!unsteady.empty()) {
    out.push_back(fmt::format("Unstable: {} - see the warnings for what was seen and what to do.",
                              join(unsteady, ", ")));
  }
  if (!result.build.sanitizers.empty()) {
    out.push_back(fmt::format("Built with sanitizers ({}): times mean nothing; build Release to measure.",
                              result.build.sanitizers));
  }
  return out;
}

std::vector<std::string> cautions(const Result& result) {
  std::vector<std::string> out = all_warnings(result);
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    for (const auto& reason : summary_of(result, i).steadiness.reasons) {
      const std::string line = result.samples.runs[i].plan.id + " is unstable: " + reason;
      if (std::find(out.begin(), out.end(), line) == out.end()) out.push_back(line);
    }
  }
  return out;
}

}  // namespace dtrain::report
