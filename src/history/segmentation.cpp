#include "history/segmentation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "stats/interval.hpp"

namespace dtrain::history {

namespace {

constexpr double most_correlation = 0.9;
constexpr double least_residual = 1e-18;  // of logarithms: below it, numbers are equal

// Sums of squares of any piece around its own mean, in constant time.
class Pieces {
 public:
  explicit Pieces(std::span<const double> values)
      : sums_(values.size() + 1), squares_(values.size() + 1), shift_(stats::mean(values)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i] - shift_;
      sums_[i + 1] = sums_[i] + value;
      squares_[i + 1] = squares_[i] + value * value;
    }
  }
  double residual(std::size_t begin, std::size_t end) const {
    const double sum = sums_[end] - sums_[begin];
    return std::max(squares_[end] - squares_[begin] - sum * sum / static_cast<double>(end - begin), 0.0);
  }
  double level(std::size_t begin, std::size_t end) const {
    return shift_ + (sums_[end] - sums_[begin]) / static_cast<double>(end - begin);
  }

 private:
  std::vector<double> sums_;
  std::vector<double> squares_;
  double shift_;
};

std::vector<std::size_t> best_bounds(const Pieces& pieces, std::size_t n, std::size_t cuts,
                                     std::size_t least) {
  constexpr double impossible = std::numeric_limits<double>::infinity();
  std::vector<double> before(n + 1, impossible);
  for (std::size_t end = least; end <= n; ++end) before[end] = pieces.residual(0, end);
  std::vector<std::vector<std::size_t>> last_cut(cuts, std::vector<std::size_t>(n + 1));
  for (std::size_t cut = 0; cut < cuts; ++cut) {
    std::vector<double> now(n + 1, impossible);
    for (std::size_t end = (cut + 2) * least; end <= n; ++end) {
      for (std::size_t at = (cut + 1) * least; at + least <= end; ++at) {
        const double residual = before[at] + pieces.residual(at, end);
        if (residual >= now[end]) continue;
        now[end] = residual;
        last_cut[cut][end] = at;
      }
    }
    before = std::move(now);
  }
  std::vector<std::size_t> bounds{n};
  for (std::size_t cut = cuts; cut-- > 0;) bounds.push_back(last_cut[cut][bounds.back()]);
  bounds.push_back(0);
  std::reverse(bounds.begin(), bounds.end());
  return bounds;
}

double lag_one(std::span<const double> values, const Segmentation& found) {
  double products = 0.0;
  double last = 0.0;
  for (std::size_t level = 0; level < found.levels.size(); ++level) {
    for (std::size_t i = found.bounds[level]; i < found.bounds[level + 1]; ++i) {
      const double rest = values[i] - found.levels[level];
      products += rest * last;
      last = rest;
    }
  }
  return products / found.residual;
}

// Fitted levels pull the estimate down by about 1.5 / n a cut; the rest is the usual bias of order phi / n.
double corrected(double correlation, std::size_t n, std::size_t cuts) {
  const auto count = static_cast<double>(n);
  const double fitted = 1.5 * static_cast<double>(cuts) / count;
  return std::clamp((correlation + fitted) / std::max(1.0 - 3.0 / count, 0.2), 0.0, most_correlation);
}

}  // namespace

Segmentation segmentation_at(std::span<const double> values, std::vector<std::size_t> bounds) {
  const std::size_t n = values.size();
  const Pieces pieces(values);
  Segmentation found;
  found.bounds = std::move(bounds);
  double residual = 0.0;
  for (std::size_t level = 0; level + 1 < found.bounds.size(); ++level) {
    found.levels.push_back(pieces.level(found.bounds[level], found.bounds[level + 1]));
    residual += pieces.residual(found.bounds[level], found.bounds[level + 1]);
  }
  found.residual = std::max(residual, least_residual);
  found.explained = pieces.residual(0, n) - residual;
  found.correlation = corrected(lag_one(values, found), n, found.cuts());
  return found;
}

Segmentation best_segmentation(std::span<const double> values, std::size_t cuts, std::size_t least) {
  return segmentation_at(values, best_bounds(Pieces(values), values.size(), cuts, least));
}

double residual_of_line(std::span<const double> values) {
  const double middle = static_cast<double>(values.size() - 1) / 2.0;
  const double level = stats::mean(values);
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

}  // namespace dtrain::history
