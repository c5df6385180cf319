#include "history/change_points.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "history/segmentation.hpp"
#include "stats/interval.hpp"

namespace dtrain::history {

namespace {

constexpr std::size_t most_cuts = 5;  // looked for at once
constexpr int simulations = 4000;
constexpr std::size_t longest_simulated = 80;  // beyond it what chance reaches hardly grows
constexpr std::uint64_t seed = 0x6869'7374'6f72'79ULL;

// More cuts find more to fit in noise and in a line.
double chance_allowed(std::size_t cuts) { return cuts == 1 ? 0.01 : 0.002; }
double margin_over_line(std::size_t n, std::size_t cuts) {
  return cuts == 1 ? std::max(1.4, 1.0 + 7.0 / static_cast<double>(n)) : 2.0;
}

double noise_of(const Segmentation& found, std::size_t n, double least_noise) {
  return std::max(found.residual / static_cast<double>(n - found.cuts() - 1), least_noise);
}

// By how much memory makes means vary more.
double memory_of(const Segmentation& found) { return (1.0 + found.correlation) / (1.0 - found.correlation); }

double strength(const Segmentation& found, std::size_t n, double least_noise) {
  return found.explained / static_cast<double>(found.cuts()) /
         (noise_of(found, n, least_noise) * memory_of(found));
}

std::vector<ChangePoint> changes_of(const Segmentation& found, std::size_t n, double least_noise) {
  const auto freedom = static_cast<double>(n - found.cuts() - 1);
  const double t = boost::math::quantile(boost::math::students_t(freedom), 0.975);
  const double variance = noise_of(found, n, least_noise) * memory_of(found);
  const auto share = [&](std::size_t level) {
    return 1.0 / static_cast<double>(found.bounds[level + 1] - found.bounds[level]);
  };
  std::vector<ChangePoint> changes;
  for (std::size_t cut = 0; cut < found.cuts(); ++cut) {
    const double step = found.levels[cut + 1] - found.levels[cut];
    const double half = t * std::sqrt(variance * (share(cut) + share(cut + 1)));
    changes.push_back({.before = {found.bounds[cut], found.bounds[cut + 1]},
                       .after = {found.bounds[cut + 1], found.bounds[cut + 2]},
                       .ratio = std::exp(step),
                       .low = std::exp(step - half),
                       .high = std::exp(step + half)});
  }
  return changes;
}

bool is_large(const ChangePoint& change) {
  return change.low > 1.0 + least_change || change.high < 1.0 - least_change;
}

// A level too short to be one drags a cut away from its place until it has taken in enough other results.
// Where the cut lies once it may leave fewer.
std::size_t undragged(std::span<const double> logs, const Segmentation& found, std::size_t cut) {
  const std::size_t begin = found.bounds[cut];
  const std::size_t end = found.bounds[cut + 2];
  const std::size_t here = found.bounds[cut + 1];
  const std::size_t free = begin + best_segmentation(logs.subspan(begin, end - begin), 1, 1).bounds[1];
  const bool leaves_few = std::min(free - begin, end - free) < least_segment;
  const bool near = std::max(free, here) - std::min(free, here) <= least_segment;
  return leaves_few && near ? free : here;
}

ChangePoint change_between(Level before, Level after, std::span<const double> logs,
                           std::span<const double> own) {
  std::vector<double> values;
  std::vector<double> own_variances;
  for (const Level level : {before, after}) {
    const auto piece = logs.subspan(level.begin, level.size());
    const auto own_piece = own.subspan(level.begin, level.size());
    values.insert(values.end(), piece.begin(), piece.end());
    own_variances.insert(own_variances.end(), own_piece.begin(), own_piece.end());
  }
  const std::size_t n = values.size();
  ChangePoint change =
      changes_of(segmentation_at(values, {0, before.size(), n}), n, stats::mean(own_variances)).front();
  change.before = before;
  change.after = after;
  return change;
}

}  // namespace

double ChangePointFinder::strength_by_chance(std::size_t n, std::size_t cuts) {
  n = std::min(n, longest_simulated);
  const auto [place, missing] = by_chance_.try_emplace({n, cuts}, 0.0);
  if (!missing) return place->second;
  Random random(mix(mix(seed, n), cuts));
  std::vector<double> strengths(simulations);
  std::vector<double> series(n);
  for (double& found : strengths) {
    for (double& value : series) value = random.normal();
    found = strength(best_segmentation(series, cuts, least_segment), n, 0.0);
  }
  const auto limit =
      strengths.begin() + static_cast<std::ptrdiff_t>((1.0 - chance_allowed(cuts)) * simulations);
  std::nth_element(strengths.begin(), limit, strengths.end());
  place->second = *limit;
  return place->second;
}

void ChangePointFinder::search(std::span<const double> logs, std::span<const double> own, std::size_t offset,
                               std::vector<std::size_t>& bounds) {
  const std::size_t n = logs.size();
  const double least_noise = n == 0 ? 0.0 : stats::mean(own);
  for (std::size_t cuts = 1; cuts <= most_cuts && n >= (cuts + 1) * least_segment; ++cuts) {
    const Segmentation best = best_segmentation(logs, cuts, least_segment);
    if (!std::ranges::all_of(changes_of(best, n, least_noise), is_large)) continue;
    if (residual_of_line(logs) <= margin_over_line(n, cuts) * best.residual) continue;
    if (strength(best, n, least_noise) <= strength_by_chance(n, cuts)) continue;
    std::size_t begin = 0;
    for (std::size_t level = 0; level <= cuts; ++level) {
      const std::size_t end = level == cuts ? n : std::max(begin, undragged(logs, best, level));
      search(logs.subspan(begin, end - begin), own.subspan(begin, end - begin), offset + begin, bounds);
      if (level < cuts) bounds.push_back(offset + end);
      begin = end;
    }
    return;
  }
}

std::vector<ChangePoint> ChangePointFinder::find(std::span<const Observation> series) {
  std::vector<double> logs;
  std::vector<double> own;
  for (const auto& observation : series) {
    logs.push_back(observation.log_rate);
    own.push_back(observation.own_variance);
  }
  std::vector<std::size_t> bounds;
  search(logs, own, 0, bounds);
  bounds.push_back(logs.size());
  std::vector<ChangePoint> found;
  std::size_t begin = 0;
  Level before;
  for (const std::size_t end : bounds) {
    const Level level{.begin = begin, .end = end};
    begin = end;
    if (level.size() < least_segment) continue;
    if (before.size() > 0) {
      const ChangePoint change = change_between(before, level, logs, own);
      if (is_large(change)) found.push_back(change);
    }
    before = level;
  }
  return found;
}

}  // namespace dtrain::history
