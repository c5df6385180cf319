#include "history/judge.hpp"

#include <algorithm>
#include <cmath>

#include "stats/interval.hpp"
#include "stats/steadiness.hpp"

namespace dtrain::history {

namespace {

constexpr double noisy_calibration = 2.0;  // times the scatter without it

void normalise(Series& series) {
  std::vector<double> seconds;
  for (const auto& point : series.points) {
    if (point.calibration_seconds <= 0.0) return;
    seconds.push_back(point.calibration_seconds);
  }
  if (value_of(series.work, "device") != "cpu") return;
  series.reference_calibration_seconds = stats::median(seconds);
  for (auto& point : series.points) {
    const double factor = point.calibration_seconds / series.reference_calibration_seconds;
    point.normalised = stats::scaled(point.images_per_second, factor);
  }
}

std::vector<double> logs_of(const Series& series, bool normalised) {
  std::vector<double> logs;
  for (const auto& point : series.points)
    logs.push_back(std::log((normalised ? *point.normalised : point.images_per_second).median));
  return logs;
}

// Typical step from one result to the next: levels, and changes that are few, do not matter to it.
double scatter(const std::vector<double>& logs) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < logs.size(); ++i) steps.push_back(std::abs(logs[i] - logs[i - 1]));
  return stats::median(steps);
}

void find_changes(Series& series, const std::vector<double>& logs, const std::vector<double>& raw,
                  ChangePointFinder& finder) {
  std::vector<Observation> observations;
  for (std::size_t i = 0; i < logs.size(); ++i)
    observations.push_back({.log_rate = logs[i], .own_variance = series.points[i].own_variance});
  for (const auto& found : finder.find(observations)) {
    const auto mean = [](std::span<const double> values, Level level) {
      return stats::mean(values.subspan(level.begin, level.size()));
    };
    const auto step = [&](std::span<const double> values) {
      return mean(values, found.after) - mean(values, found.before);
    };
    Change change{.first = found.first(),
                  .share = found.ratio - 1.0,
                  .low = found.low - 1.0,
                  .high = found.high - 1.0,
                  .raw_share = std::expm1(step(raw)),
                  .machine_share = {}};
    if (series.reference_calibration_seconds > 0.0)
      change.machine_share = std::expm1(step(raw) - step(logs_of(series, true)));
    series.changes.push_back(change);
  }
}

std::string remark_on(const Series& series, const std::vector<double>& logs) {
  const std::size_t n = series.points.size();
  if (!series.changes.empty()) return {};
  if (n < enough_results) {
    return fmt::format("{} of the {} results of equal work that it takes to look for a change", n,
                       enough_results);
  }
  std::vector<double> rates;
  for (const double log : logs) rates.push_back(std::exp(log - logs.front()));
  const double drift = stats::significant_drift(rates);
  if (std::abs(drift) < least_change) return std::string(no_change);
  return fmt::format("no single change, but a drift of {:+.1f} % from first to last", drift * 100.0);
}

}  // namespace

void judge(Series& series, ChangePointFinder& finder) {
  normalise(series);
  const auto raw = logs_of(series, false);
  auto logs = raw;
  if (series.reference_calibration_seconds > 0.0) {
    logs = logs_of(series, true);
    series.judged_normalised =
        raw.size() < enough_results || scatter(logs) <= noisy_calibration * scatter(raw);
    if (!series.judged_normalised) logs = raw;
  }
  find_changes(series, logs, raw, finder);
  series.remark = remark_on(series, logs);
}

}  // namespace dtrain::history
