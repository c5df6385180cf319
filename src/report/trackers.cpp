#include <cmath>

#include "base/text.hpp"
#include "report/format.hpp"
#include "report/json_text.hpp"
#include "report/writers.hpp"

// Files that services read which keep a benchmark's numbers over time. They take a number at its name, so
// that the name says which work it is, and a run that is not what it seems has a name of its own.
namespace dtrain::report {

namespace {

using Base = config::RunPlan::Base;

constexpr std::size_t longest_name = 1024;  // Bencher takes no longer one

std::string policy(const config::Options& options) {
  std::string text;
  if (options.accumulate > 1) text += fmt::format(", accumulate {}", options.accumulate);
  if (options.sync_every > 1) text += fmt::format(", sync every {}", options.sync_every);
  if (options.updates == config::Updates::async) text += ", asynchronous";
  if (options.compress != "none") text += ", compress " + options.compress;
  return text;
}

std::string caution(const Result& result, std::size_t run) {
  std::string text;
  if (!result.samples.complete) text += " (incomplete)";
  if (result.samples.runs[run].plan.simulated) text += " (simulated)";
  if (!summary_of(result, run).steadiness.stable) text += " (unstable)";
  return text;
}

std::string name_of(const Result& result, std::size_t run) {
  const auto& plan = result.samples.runs[run].plan;
  const bool alone = plan.replicas == 1;
  return shorten(fmt::format("{}, {}, {}, {}, batch {}{}{}", result.model.name, plan.id, result.device,
                             config::name(result.options.precision), plan.global_batch,
                             alone ? "" : policy(result.options), caution(result, run)),
                 longest_name);
}

bool is_finite(const stats::Interval& interval) {
  return std::isfinite(interval.median) && std::isfinite(interval.low) && std::isfinite(interval.high);
}

// Runs that have a number to give: measured to their end, training one model, and that number is one.
std::vector<std::size_t> runs_to_track(const Result& result) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
    const auto& run = result.samples.runs[i];
    const auto& rate = summary_of(result, i).images_per_second;
    const bool sound = run.failure.empty() && run.weights_agree && !run.rounds.empty();
    if (sound && is_finite(rate) && rate.median > 0.0) found.push_back(i);
  }
  return found;
}

// None for bases, and where replicas share hardware.
std::optional<stats::Interval> efficiency_percent(const Result& result, std::size_t run) {
  const auto& efficiency = summary_of(result, run).efficiency;
  if (!efficiency || !is_finite(*efficiency) || result.samples.runs[run].plan.simulated) return std::nullopt;
  return stats::scaled(*efficiency, 100.0);
}

Json entry(const std::string& name, const std::string& unit, const stats::Interval& value,
           const std::string& extra) {
  return {{"name", name},
          {"unit", unit},
          {"value", value.median},
          {"range", fmt::format("{:.6g} to {:.6g}", value.low, value.high)},
          {"extra", extra}};
}

Json metric(const stats::Interval& value) {
  return {{"value", value.median}, {"lower_value", value.low}, {"upper_value", value.high}};
}

}  // namespace

std::string to_github_action_benchmark(const Result& result) {
  Json entries = Json::array();
  for (const std::size_t run : runs_to_track(result)) {
    const std::string name = name_of(result, run);
    const std::string extra = fmt::format(
        "machine {}\ncommit {}\n{}, median and 95 % interval", result.machine.key, result.build.commit,
        count(static_cast<std::int64_t>(result.samples.runs[run].rounds.size()), "round"));
    entries.push_back(
        entry(name + ": throughput", "images/s", summary_of(result, run).images_per_second, extra));
    if (const auto efficiency = efficiency_percent(result, run))
      entries.push_back(entry(name + ": scaling efficiency", "%", *efficiency, extra));
  }
  return to_text(entries);
}

std::string to_bencher(const Result& result) {
  Json benchmarks = Json::object();
  for (const std::size_t run : runs_to_track(result)) {
    const auto& summary = summary_of(result, run);
    Json& measures = benchmarks[name_of(result, run)] = Json::object();
    measures["images-per-second"] = metric(summary.images_per_second);
    if (is_finite(summary.mean_step_seconds))
      measures["step-milliseconds"] = metric(stats::scaled(summary.mean_step_seconds, 1e3));
    if (const auto efficiency = efficiency_percent(result, run))
      measures["scaling-efficiency-percent"] = metric(*efficiency);
  }
  return to_text(benchmarks);
}

}  // namespace dtrain::report
