#include "stats/interval.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "base/units.hpp"

namespace dtrain::stats {
namespace {

TEST(Median, OfOddEvenAndNoValues) {
  EXPECT_EQ(median({}), 0.0);
  EXPECT_EQ(median({3.0}), 3.0);
  EXPECT_EQ(median({9.0, 1.0, 5.0}), 5.0);
  EXPECT_EQ(median({9.0, 1.0, 5.0, 3.0}), 4.0);
}

TEST(Percentile, InterpolatesLinearlyBetweenTheNearest) {
  std::vector<double> values(11);
  std::iota(values.begin(), values.end(), 0.0);
  EXPECT_DOUBLE_EQ(percentile(values, 0.0), 0.0);
  EXPECT_DOUBLE_EQ(percentile(values, 0.95), 9.5);
  EXPECT_DOUBLE_EQ(percentile(values, 0.99), 9.9);
  EXPECT_DOUBLE_EQ(percentile(values, 1.0), 10.0);
  EXPECT_EQ(percentile({}, 0.5), 0.0);
  const Percentiles p = percentiles_of({4.0, 1.0, 3.0, 2.0});
  EXPECT_DOUBLE_EQ(p.p50, 2.5);
  EXPECT_DOUBLE_EQ(p.p95, 3.85);
  EXPECT_DOUBLE_EQ(p.p99, 3.97);
}

TEST(BootstrapMedian, WithFewerThanTwoRoundsThereIsNoInterval) {
  const Interval none = bootstrap_median({});
  EXPECT_EQ(none.rounds, 0);
  EXPECT_EQ(none.median, 0.0);
  const std::vector<double> one = {7.0};
  const Interval single = bootstrap_median(one);
  EXPECT_EQ(single.rounds, 1);
  EXPECT_EQ(single.low, 7.0);
  EXPECT_EQ(single.high, 7.0);
}

TEST(BootstrapMedian, SpansTheRangeOfFewRounds) {
  for (const std::vector<double>& values :
       {std::vector{1.0, 2.0}, {5.0, 1.0, 3.0}, {4.0, 2.0, 8.0, 6.0}, {5.0, 4.0, 3.0, 2.0, 1.0}}) {
    const Interval interval = bootstrap_median(values);
    EXPECT_EQ(interval.low, *std::min_element(values.begin(), values.end()));
    EXPECT_EQ(interval.high, *std::max_element(values.begin(), values.end()));
    EXPECT_EQ(interval.median, median(values));
    EXPECT_EQ(interval.rounds, static_cast<int>(values.size()));
  }
}

TEST(BootstrapMedian, SameValuesGiveTheSameInterval) {
  const std::vector<double> values = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  const Interval a = bootstrap_median(values);
  const Interval b = bootstrap_median(values);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  const Interval constant = bootstrap_median(std::vector<double>(8, 2.0));
  EXPECT_EQ(constant.low, 2.0);
  EXPECT_EQ(constant.high, 2.0);
}

TEST(BootstrapMedian, ScalesWithItsValues) {
  const Interval interval = bootstrap_median(std::vector<double>{1.0, 2.0, 3.0, 4.0, 5.0});
  const Interval half = scaled(interval, 0.5);
  EXPECT_EQ(half.median, 1.5);
  EXPECT_EQ(half.low, 0.5);
  EXPECT_EQ(half.high, 2.5);
  EXPECT_EQ(half.rounds, 5);
}

// How often the interval holds the true median, for a symmetric and for a skewed distribution.
double coverage(std::size_t rounds, bool skewed, int trials = 300) {
  const double truth = skewed ? std::log(2.0) : 0.0;
  Random random(17 + rounds);
  int held = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> values(rounds);
    for (double& value : values) value = skewed ? -std::log(1.0 - random.uniform()) : random.normal();
    const Interval interval = bootstrap_median(values);
    held += interval.low <= truth && truth <= interval.high ? 1 : 0;
  }
  return static_cast<double>(held) / trials;
}

TEST(BootstrapMedian, CoversTheTrueMedianAsOftenAsItSays) {
  for (const bool skewed : {false, true}) {
    EXPECT_NEAR(coverage(2, skewed), 0.50, 0.08);
    EXPECT_NEAR(coverage(3, skewed), 0.75, 0.07);
    EXPECT_NEAR(coverage(4, skewed), 0.875, 0.05);
    EXPECT_NEAR(coverage(5, skewed), 0.9375, 0.04);
    for (const std::size_t rounds : {7UL, 12UL}) {
      const double covered = coverage(rounds, skewed, 100);
      EXPECT_GE(covered, 0.90) << rounds;
      EXPECT_LE(covered, 1.0);
    }
  }
}

TEST(BootstrapMedian, NarrowsWithMoreRounds) {
  Random random(5);
  std::vector<double> values(100);
  for (double& value : values) value = random.normal();
  const Interval few = bootstrap_median(std::span(values).first(8));
  const Interval many = bootstrap_median(values);
  EXPECT_LT(many.high - many.low, 0.6 * (few.high - few.low));
}

}  // namespace
}  // namespace dtrain::stats
