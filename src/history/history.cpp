#include "history/history.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/text.hpp"
#include "history/judge.hpp"
#include "stats/summary.hpp"

namespace dtrain::history {

namespace {

constexpr std::size_t named_files = 5;
constexpr double like_losses = 3.0;  // times: other first weights differ by less, another objective by more

std::vector<double> rates_of(const measure::RunSamples& run) {
  std::vector<double> rates;
  for (const auto& round : run.rounds) rates.push_back(static_cast<double>(round.images) / round.seconds);
  return rates;
}

double calibration_of(const measure::RunSamples& run) {
  std::vector<double> seconds;
  for (const auto& round : run.rounds) {
    if (round.calibration_seconds <= 0.0) return 0.0;
    seconds.push_back(round.calibration_seconds);
  }
  return stats::median(seconds);
}

// A median's variance is pi / 2 times that of a mean.
double variance_of_median(const std::vector<double>& rates) {
  const auto n = static_cast<double>(rates.size());
  if (n < 2) return 0.0;
  double sum = 0.0;
  double squares = 0.0;
  for (const double rate : rates) {
    sum += std::log(rate / rates.front());
    squares += std::log(rate / rates.front()) * std::log(rate / rates.front());
  }
  return 0.5 * M_PI * std::max(squares - sum * sum / n, 0.0) / (n - 1.0) / n;
}

Point point_of(const Source& source, std::size_t index, const stats::RunSummary& summary) {
  const auto& result = source.result;
  const auto& run = result.samples.runs[index];
  const auto rates = rates_of(run);
  Point point{
      .file = source.file,
      .created = result.created,
      .commit = tool_of(result) == "dtrain" ? result.build.commit : result.build.version,
      .run = run.plan.id,
      .images_per_second = stats::bootstrap_median(rates),
      .normalised = {},
      .efficiency = summary.efficiency,
      .calibration_seconds = calibration_of(run),
      .first_loss = run.losses.empty() ? std::numeric_limits<double>::quiet_NaN() : run.losses.front(),
      .own_variance = variance_of_median(rates),
      .stable = summary.steadiness.stable};
  if (run.plan.simulated) point.efficiency.reset();
  return point;
}

stats::Summary summary_of(const report::Result& result) {
  return stats::summarise({.samples = &result.samples,
                           .scaling = result.scaling,
                           .training_flops_per_image = result.model.training_flops_per_image,
                           .peak_flops_per_replica = result.model.peak_flops_per_replica,
                           .training_bytes_per_image = result.model.training_bytes_per_image,
                           .update_bytes = result.model.update_bytes,
                           .peak_bytes_per_replica = result.model.peak_bytes_per_replica});
}

// Empty if the run has a place in the history.
std::string why_not(const measure::RunSamples& run) {
  if (!run.failure.empty()) return "failed: " + run.failure;
  if (run.rounds.empty()) return "was not measured";
  if (!run.weights_agree) return "ended with different weights on its ranks";
  return {};
}

// Puts every run where it belongs.
class Sorter {
 public:
  void add(const Source& source) {
    const auto& result = source.result;
    if (!result.samples.complete) return history.notes.push_back(source.file + ": incomplete, left out");
    ++history.results;
    const std::string tool = tool_of(result);
    const stats::Summary summary = summary_of(result);
    for (std::size_t i = 0; i < result.samples.runs.size(); ++i) {
      const auto& run = result.samples.runs[i];
      if (const std::string why = why_not(run); !why.empty()) {
        history.notes.push_back(fmt::format("{}: {} {}, left out", source.file, run.plan.id, why));
        continue;
      }
      auto& list = tool == "dtrain" ? machine_of(result).series : others;
      series_of(list, tool, run.plan.id, work_of(result, i))
          .points.push_back(point_of(source, i, summary.runs[i]));
    }
  }

  History history;
  std::vector<Series> others;  // of other tools

 private:
  Machine& machine_of(const report::Result& result) {
    const auto& machine = result.machine;
    const auto known = std::ranges::find(history.machines, machine.key, &Machine::key);
    if (known != history.machines.end()) return *known;
    Machine& added = history.machines.emplace_back();
    added.key = machine.key;
    added.cpu = machine.cpu;
    if (result.device != "cpu") added.devices = machine.devices;
    return added;
  }

  static Series& series_of(std::vector<Series>& list, const std::string& tool, const std::string& run,
                           const Work& work) {
    for (auto& series : list) {
      const bool named_alike = tool == "dtrain" || series.label == run;
      if (series.tool == tool && named_alike && differences(series.work, work, false).empty()) return series;
    }
    Series& series = list.emplace_back();
    series.tool = tool;
    series.label = run;
    series.work = work;
    return series;
  }
};

std::vector<std::string> unlike(const Series& ours, const Series& other) {
  auto found = differences(ours.work, other.work, true);
  const double mine = ours.points.back().first_loss;
  const double theirs = other.points.back().first_loss;
  if (!(std::isfinite(mine) && std::isfinite(theirs))) return found;
  if (std::abs(std::log(theirs / mine)) <= std::log(like_losses)) return found;
  found.push_back(fmt::format("first loss {:.3g} instead of {:.3g}", theirs, mine));
  return found;
}

// Behind the series of ours that did the same; refused, with what differs from the nearest, where none did.
void place(Series other, History& history) {
  std::optional<std::vector<std::string>> least;
  std::string nearest;
  const std::string& key = value_of(other.work, "machine");
  for (auto& machine : history.machines) {
    if (machine.key != key) continue;
    for (auto ours = machine.series.begin(); ours != machine.series.end(); ++ours) {
      if (ours->tool != "dtrain") continue;
      auto differs = unlike(*ours, other);
      if (differs.empty()) {
        while (std::next(ours) != machine.series.end() && std::next(ours)->tool != "dtrain") ++ours;
        machine.series.insert(std::next(ours), std::move(other));
        return;
      }
      if (least && least->size() <= differs.size()) continue;
      least = std::move(differs);
      nearest = ours->label;
    }
  }
  const std::string why = least ? fmt::format("other work than our {}: {}", nearest, join(*least, ", "))
                                : fmt::format("nothing of ours on its machine ({}) to stand beside",
                                              key.empty() ? "no key" : key);
  history.refused.push_back(
      fmt::format("{} ({}, {}): {}", other.points.back().file, other.tool, other.label, why));
}

// Traits that follow from another one need no naming beside it.
bool follows(const std::string& trait, const std::vector<std::string>& named) {
  static const std::map<std::string, std::string> from = {
      {"parameters", "model"}, {"data checksum", "data"}, {"global batch", "batch"}};
  const auto found = from.find(trait);
  return found != from.end() && std::ranges::find(named, found->second) != named.end();
}

// The run's id, and what tells it from other series of ours with the same.
std::string full_label(const Series& series, const std::vector<Series>& all) {
  std::vector<std::string> named;
  std::string label = series.label;
  for (std::size_t t = 0; t < series.work.size(); ++t) {
    const auto& trait = series.work[t];
    const auto differs = [&](const Series& other) {
      return other.tool == "dtrain" && other.points.back().run == series.points.back().run &&
             other.work[t].value != trait.value;
    };
    if (std::ranges::none_of(all, differs) || follows(trait.name, named)) continue;
    named.push_back(trait.name);
    label += fmt::format(", {} {}", trait.name, trait.value.empty() ? "none" : trait.value);
  }
  return label;
}

void name_series(std::vector<Series>& list) {
  std::vector<std::string> labels;
  for (const auto& series : list)
    labels.push_back(series.tool == "dtrain" ? full_label(series, list) : series.label);
  for (std::size_t i = 0; i < list.size(); ++i) list[i].label = std::move(labels[i]);
}

void note_skipped(const std::vector<std::string>& skipped, History& history) {
  if (skipped.empty()) return;
  const std::size_t shown = std::min(skipped.size(), named_files);
  std::string text = "skipped " + join(std::span(skipped).first(shown), ", ");
  if (shown < skipped.size()) text += fmt::format(" and {} more", skipped.size() - shown);
  history.notes.push_back(text);
}

std::string last_time(const Machine& machine) {
  std::string last;
  for (const auto& series : machine.series) last = std::max(last, series.points.back().created);
  return last;
}

}  // namespace

History make_history(Collection collection) {
  Sorter sorter;
  for (const auto& source : collection.sources) sorter.add(source);
  History history = std::move(sorter.history);
  for (auto& other : sorter.others) place(std::move(other), history);
  std::ranges::stable_sort(history.machines, std::greater(), last_time);
  ChangePointFinder finder;
  for (auto& machine : history.machines) {
    name_series(machine.series);
    for (auto& series : machine.series) judge(series, finder);
  }
  note_skipped(collection.skipped, history);
  return history;
}

}  // namespace dtrain::history
