#include "predict/expected_maximum.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"

namespace dtrain::predict {
namespace {

std::vector<double> sample(std::size_t count, double deviation) {
  Random random(7);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(1.0 + deviation * random.normal());
  std::sort(values.begin(), values.end());
  return values;
}

TEST(ExpectedMaximum, IsThatOfTheNormalDistributionForNormalSteps) {
  const ExpectedMaximum maximum(sample(4000, 0.1));
  EXPECT_NEAR(maximum.above_mean(2) / 0.1, 0.564, 0.03);  // tables of order statistics
  EXPECT_NEAR(maximum.above_mean(10) / 0.1, 1.539, 0.06);
  EXPECT_NEAR(maximum.above_mean(100) / 0.1, 2.508, 0.15);
  EXPECT_EQ(maximum.above_mean(1), 0.0);
}

TEST(ExpectedMaximum, OfTwoValuesIsWorkedOutByHand) {
  std::vector<double> values(40, 1.0);
  std::fill(values.begin() + 30, values.end(), 2.0);  // a quarter of the steps take twice as long
  EXPECT_NEAR(ExpectedMaximum(values).above_mean(2), 1.0 + (1.0 - 0.75 * 0.75) - 1.25, 1e-12);
}

TEST(ExpectedMaximum, GoesOnBeyondTheSample) {
  const ExpectedMaximum maximum(sample(200, 0.1));
  EXPECT_EQ(maximum.known_up_to(), 50);
  double before = 0.0;
  for (const int n : {2, 8, 32, 50, 51, 64, 512, 4096, 1'000'000}) {
    EXPECT_GT(maximum.above_mean(n), before) << n;
    before = maximum.above_mean(n);
  }
  EXPECT_LT(maximum.above_mean(1'000'000), 1.5);
}

TEST(ExpectedMaximum, IsInDeviationsWithoutASample) {
  for (const auto& values : {std::vector<double>{}, std::vector<double>(100, 1.0)}) {
    const ExpectedMaximum maximum(values);
    EXPECT_EQ(maximum.known_up_to(), 0);
    EXPECT_NEAR(maximum.above_mean(10), 1.539, 0.02);
    EXPECT_NEAR(maximum.above_mean(1000), 3.241, 0.03);
  }
}

}  // namespace
}  // namespace dtrain::predict
