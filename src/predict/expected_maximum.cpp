#include "predict/expected_maximum.hpp"

#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>

namespace dtrain::predict {

namespace {

constexpr std::size_t smallest_sample = 20;
constexpr int values_in_tail = 4;  // of the sample for each of N draws
constexpr double least_spread = 1e-6;

// Blom 1958: the normal quantile at (N - 0.375) / (N + 0.25).
double normal_maximum(int n) {
  const boost::math::normal normal;
  return n <= 1 ? 0.0 : boost::math::quantile(boost::math::complement(normal, 0.625 / (n + 0.25)));
}

}  // namespace

ExpectedMaximum::ExpectedMaximum(std::vector<double> sample) : sample_(std::move(sample)) {
  const std::size_t n = sample_.size();
  if (n < smallest_sample || !(sample_.back() - sample_.front() > least_spread * sample_.back())) {
    sample_.clear();
    return;
  }
  mean_ = std::accumulate(sample_.begin(), sample_.end(), 0.0) / static_cast<double>(n);
  const std::size_t begin = n * 9 / 10;
  for (std::size_t i = begin; i < n; ++i) tail_ += sample_[i] - sample_[begin - 1];
  tail_ /= static_cast<double>(n - begin);
  known_up_to_ = static_cast<int>(n) / values_in_tail;
}

// The i-th of n sorted values is the largest of N draws with probability (i/n)^N - ((i-1)/n)^N.
double ExpectedMaximum::of_sample(int n) const {
  const auto count = static_cast<double>(sample_.size());
  double expected = 0.0;
  double below = 0.0;
  for (std::size_t i = 0; i < sample_.size(); ++i) {
    const double up_to = std::pow(static_cast<double>(i + 1) / count, n);
    expected += sample_[i] * (up_to - below);
    below = up_to;
  }
  return expected - mean_;
}

double ExpectedMaximum::above_mean(int n) const {
  if (n <= 1) return 0.0;
  if (sample_.empty()) return normal_maximum(n);
  if (n <= known_up_to_) return of_sample(n);
  return of_sample(known_up_to_) + tail_ * std::log(static_cast<double>(n) / known_up_to_);
}

}  // namespace dtrain::predict
