#include <gtest/gtest.h>

#include <cmath>

#include "predict/draws.hpp"
#include "synthetic.hpp"

namespace dtrain::predict {
namespace {

// How many of the intervals for 8 replicas, from 1, 2 and 4, hold what such a machine does on the whole.
double coverage(const Truth& truth, int rounds, int trials) {
  int held = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const auto prediction =
        predict(make_result(truth, {1, 2, 4}, rounds, 1000U + static_cast<unsigned>(trial)), ask({8}));
    const report::Result seen = make_result(truth, {8}, rounds, 9000U + static_cast<unsigned>(trial));
    const Point measured = take_measured(seen).points.front();
    const double step = typical(measured).step();
    const Range& range = prediction.estimates.front().step;
    held += range.low <= step && step <= range.high ? 1 : 0;
  }
  return static_cast<double>(held) / trials;
}

TEST(Interval, HoldsWhatIsMeasuredLater) {
  EXPECT_GE(coverage({.step_noise = 0.03, .round_noise = 0.03}, 5, 40), 0.9);
  EXPECT_GE(coverage({.alpha = 0.1 * ms, .beta = 1e-9, .step_noise = 0.1, .round_noise = 0.01}, 5, 40), 0.9);
  EXPECT_GE(coverage({.law = tree(), .round_noise = 0.05}, 3, 40), 0.9);
}

TEST(Interval, NarrowsWithQuietRoundsAndWidensWithDistance) {
  const auto width = [](double noise, int n) {
    const Truth truth{.step_noise = 0.01, .round_noise = noise};
    const auto prediction = predict(make_result(truth, {1, 2, 4, 8}, 7), ask({n}));
    const Range& range = prediction.estimates.front().step;
    return std::log(range.high / range.low);
  };
  EXPECT_LT(width(0.001, 16), width(0.03, 16));
  EXPECT_LT(width(0.03, 8), width(0.03, 32));
  EXPECT_LT(width(0.03, 32), width(0.03, 256));
  EXPECT_LT(width(0.001, 16), 0.2);
}

TEST(Interval, HoldsAllLawsThatFitAsWell) {
  // Two points above N = 1 cannot tell the latencies of a ring from those of halving and doubling.
  const auto prediction = predict(make_result({}, {1, 2, 4}), ask({512}));
  const Range& range = prediction.estimates.front().step;
  EXPECT_FALSE(prediction.collective.others.empty());
  const Truth ring_truth;
  const double bytes_of_other = ring_truth.communication(2) - 2 * 3 * ms;  // with which 2 and 4 take as long
  const Truth other{.alpha = 3 * ms, .beta = bytes_of_other / cnn_bytes, .law = halving_doubling()};
  ASSERT_NEAR(other.step(4), ring_truth.step(4), 0.1 * ms);
  EXPECT_LE(range.low, other.step(512) * 1.01);
  EXPECT_GE(range.high, ring_truth.step(512) * 0.99);
}

TEST(Interval, IsTheSameEveryTime) {
  const Truth truth{.step_noise = 0.03, .round_noise = 0.03};
  const auto once = predict(make_result(truth, {1, 2, 4}), ask({8})).estimates.front().step;
  const auto again = predict(make_result(truth, {1, 2, 4}), ask({8})).estimates.front().step;
  EXPECT_EQ(once.low, again.low);
  EXPECT_EQ(once.high, again.high);
}

TEST(Interval, OfFewRoundsIsWidened) {
  EXPECT_EQ(widening(1), 1.0);
  EXPECT_NEAR(widening(5), 2.776 / 1.96 * std::sqrt(1.25) * std::sqrt(2.0), 0.001);  // Student's t of 4
  EXPECT_GT(widening(3), widening(5));
  EXPECT_NEAR(widening(1000), std::sqrt(2.0), 0.01);
}

TEST(Interval, IsAroundTheValueWhateverTheDraws) {
  const Spread none = spread_of({}, 3.0, 1.0);
  EXPECT_EQ(none.low, 1.0);
  EXPECT_EQ(none.high, 1.0);
  const Spread above = spread_of({4.0, 5.0, 6.0}, 3.0, 1.0);
  EXPECT_EQ(above.low, 1.0);
  EXPECT_NEAR(above.high, 2.0, 0.02);
}

}  // namespace
}  // namespace dtrain::predict
