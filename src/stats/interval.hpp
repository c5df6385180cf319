#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::stats {

// A median over rounds with a 95 % bootstrap interval. It lies within the samples' range, so that few rounds
// cannot reach 95 %: for independent rounds the range itself covers the true median with 50 % at 2 rounds, 75
// % at 3, 88 % at 4 and 94 % at 5.
struct Interval {
  double median = 0.0;
  double low = 0.0;
  double high = 0.0;
  int rounds = 0;  // it rests on; with fewer than two there is no interval, and low = high = median
};

struct Percentiles {
  double p50 = 0.0;
  double p95 = 0.0;
  double p99 = 0.0;
};

double mean(std::span<const double> values);  // at least one

// 0 for no values; the mean of the middle two for an even number.
double median(std::vector<double> values);

// Linear between the two nearest of the sorted values: position fraction x (n - 1), as NumPy's default does
// (type 7 of Hyndman, Fan 1996). 0 for no values.
double percentile(std::span<const double> sorted, double fraction);
Percentiles percentiles_of(std::vector<double> values);

// Percentile bootstrap (Efron 1979) of the median with 10,000 resamples, its tails widened for small samples
// (Hesterberg 2015: Student's t in place of the normal distribution). The same values give the same interval.
Interval bootstrap_median(std::span<const double> values);

Interval scaled(Interval interval, double factor);  // factor > 0

}  // namespace dtrain::stats
