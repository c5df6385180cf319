#include "history/change_points.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "base/random.hpp"

namespace dtrain::history {

namespace {

constexpr double chance = 0.01;
constexpr int simulations = 4000;
constexpr std::uint64_t seed = 0x6869'7374'6f72'79ULL;
constexpr double most_correlation = 0.9;
constexpr double least_residual = 1e-18;  // of logarithms: below it, numbers are equal

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The best split of a series in two levels.
struct Split {
  std::size_t at = 0;
  double step = 0.0;
  double residual = 0.0;     // sum of squares around both levels
  double correlation = 0.0;  // lag-1, of the residuals, corrected
};

double lag_one(std::span<const double> values, const Split& split) {
  const double before = mean(values.first(split.at));
  const double after = mean(values.subspan(split.at));
  double products = 0.0;
  double last = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double rest = values[i] - (i < split.at ? before : after);
    products += rest * last;
    last = rest;
  }
  return products / split.residual;
}

Split best_split(std::span<const double> values) {
  const std::size_t n = values.size();
  const double shift = mean(values);
  double total = 0.0;
  double squares = 0.0;
  for (const double value : values) {
    total += value - shift;
    squares += (value - shift) * (value - shift);
  }
  Split best{.residual = INFINITY};
  double sum = 0.0;
  for (std::size_t at = 1; at + least_segment <= n; ++at) {
    sum += values[at - 1] - shift;
    if (at < least_segment) continue;
    const auto left = static_cast<double>(at);
    const auto right = static_cast<double>(n - at);
    const double residual = squares - sum * sum / left - (total - sum) * (total - sum) / right;
    if (residual < best.residual)
      best = {.at = at, .step = (total - sum) / right - sum / left, .residual = residual};
  }
  best.residual = std::max(best.residual, least_residual);
  // A fitted mean a segment pulls the estimate towards -1/n; the rest is the usual bias of order phi / n.
  const auto count = static_cast<double>(n);
  best.correlation = std::clamp((lag_one(values, best) + 1.5 / count) / std::max(1.0 - 3.0 / count, 0.2), 0.0,
                                most_correlation);
  return best;
}

// Variance of the step: both segments' means, with the noise's memory.
double step_variance(const Split& split, std::size_t n, double least_noise) {
  const double noise = std::max(split.residual / static_cast<double>(n - 2), least_noise);
  const double memory = (1.0 + split.correlation) / (1.0 - split.correlation);
  return noise * memory * (1.0 / static_cast<double>(split.at) + 1.0 / static_cast<double>(n - split.at));
}

double strength(const Split& split, std::size_t n, double least_noise) {
  return split.step * split.step / step_variance(split, n, least_noise);
}

// The strength that scatter alone reaches by chance.
double strength_by_chance(std::size_t n) {
  Random random(mix(seed, n));
  std::vector<double> strengths(simulations);
  std::vector<double> series(n);
  for (double& found : strengths) {
    for (double& value : series) value = random.normal();
    found = strength(best_split(series), n, 0.0);
  }
  const auto place = strengths.begin() + static_cast<std::ptrdiff_t>((1.0 - chance) * simulations);
  std::nth_element(strengths.begin(), place, strengths.end());
  return *place;
}

double residual_of_line(std::span<const double> values) {
  const double middle = static_cast<double>(values.size() - 1) / 2.0;
  const double level = mean(values);
  double xx = 0.0;
  double xy = 0.0;
  double yy = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    const double y = values[i] - level;
    xx += x * x;
    xy += x * y;
    yy += y * y;
  }
  return yy - xy * xy / xx;
}

// In short series a line looks like a step more easily.
bool is_a_step(std::span<const double> values, const Split& split) {
  const double margin = std::max(1.4, 1.0 + 7.0 / static_cast<double>(values.size()));
  return residual_of_line(values) > margin * split.residual;
}

ChangePoint describe(const Split& split, std::size_t n, std::size_t offset, double least_noise) {
  const double t = boost::math::quantile(boost::math::students_t(static_cast<double>(n - 2)), 0.975);
  const double half = t * std::sqrt(step_variance(split, n, least_noise));
  return {.first = offset + split.at,
          .ratio = std::exp(split.step),
          .low = std::exp(split.step - half),
          .high = std::exp(split.step + half)};
}

bool is_large(const ChangePoint& change) {
  return change.low > 1.0 + least_change || change.high < 1.0 - least_change;
}

void search(std::span<const double> values, std::span<const double> own, std::size_t offset,
            std::vector<ChangePoint>& found) {
  const std::size_t n = values.size();
  if (n < 2 * least_segment) return;
  const Split split = best_split(values);
  const double least_noise = mean(own);
  const ChangePoint change = describe(split, n, offset, least_noise);
  if (!is_large(change) || !is_a_step(values, split)) return;
  if (strength(split, n, least_noise) <= strength_by_chance(n)) return;
  search(values.first(split.at), own.first(split.at), offset, found);
  found.push_back(change);
  search(values.subspan(split.at), own.subspan(split.at), offset + split.at, found);
}

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const Observation> series) {
  std::vector<double> values;
  std::vector<double> own;
  for (const auto& observation : series) {
    values.push_back(observation.log_rate);
    own.push_back(observation.own_variance);
  }
  std::vector<ChangePoint> found;
  if (!values.empty()) search(values, own, 0, found);
  return found;
}

}  // namespace dtrain::history
