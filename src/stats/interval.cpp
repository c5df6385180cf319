#include "stats/interval.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "base/random.hpp"

namespace dtrain::stats {

namespace {

constexpr int resamples = 10'000;
constexpr std::uint64_t seed = 0x6474'7261'696eULL;
constexpr double confidence = 0.95;

// The tail of the bootstrap distribution to cut, wider for small samples.
double tail_of(std::size_t n) {
  const auto count = static_cast<double>(n);
  const double t = boost::math::quantile(boost::math::students_t(count - 1.0), 0.5 + confidence / 2.0);
  return boost::math::cdf(boost::math::normal(), -std::sqrt(count / (count - 1.0)) * t);
}

// Draws indices, two from each random number: good to n / 2^32, and quick.
class IndexSource {
 public:
  explicit IndexSource(std::size_t n) : random_(seed), n_(n) {}
  std::size_t next() {
    if (left_ == 0) {
      bits_ = random_.next();
      left_ = 2;
    }
    --left_;
    const std::uint64_t half = left_ == 1 ? bits_ >> 32 : bits_ & 0xffff'ffffU;
    return (half * n_) >> 32;
  }

 private:
  Random random_;
  std::uint64_t n_;
  std::uint64_t bits_ = 0;
  int left_ = 0;
};

// The value at a position among sorted values of which each is there `counts` times.
double value_at(std::span<const double> sorted, std::span<const int> counts, int position) {
  std::size_t i = 0;
  while (position >= counts[i]) position -= counts[i++];
  return sorted[i];
}

std::vector<double> resampled_medians(std::span<const double> sorted) {
  const std::size_t n = sorted.size();
  const auto lower = static_cast<int>((n - 1) / 2);
  const auto upper = static_cast<int>(n / 2);
  IndexSource index(n);
  std::vector<double> medians(resamples);
  std::vector<int> counts(n);
  for (double& drawn : medians) {
    std::fill(counts.begin(), counts.end(), 0);
    for (std::size_t i = 0; i < n; ++i) ++counts[index.next()];
    drawn = 0.5 * (value_at(sorted, counts, lower) + value_at(sorted, counts, upper));
  }
  return medians;
}

}  // namespace

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return percentile(values, 0.5);
}

double percentile(std::span<const double> sorted, double fraction) {
  if (sorted.empty()) return 0.0;
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

Percentiles percentiles_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {percentile(values, 0.50), percentile(values, 0.95), percentile(values, 0.99)};
}

Interval bootstrap_median(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const double middle = percentile(sorted, 0.5);
  Interval interval{.median = middle, .low = middle, .high = middle, .rounds = static_cast<int>(n)};
  if (n < 2) return interval;

  std::vector<double> medians = resampled_medians(sorted);
  const auto cut = static_cast<std::ptrdiff_t>(tail_of(n) * resamples);
  const auto low = medians.begin() + cut;
  const auto high = medians.end() - 1 - cut;
  std::nth_element(medians.begin(), low, medians.end());
  std::nth_element(low + 1, high, medians.end());
  interval.low = *low;
  interval.high = *high;
  return interval;
}

Interval scaled(Interval interval, double factor) {
  interval.median *= factor;
  interval.low *= factor;
  interval.high *= factor;
  return interval;
}

}  // namespace dtrain::stats
