#include "history/change_points.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.hpp"

namespace dtrain::history {
namespace {

using Series = std::vector<double>;

// Noise whose every value remembers `memory` of the one before; `deviation` is that of a value.
Series noise(Random& random, std::size_t n, double deviation, double memory = 0.0) {
  Series series;
  double state = random.normal();
  for (std::size_t i = 0; i < n; ++i) {
    series.push_back(deviation * state);
    state = memory * state + std::sqrt(1.0 - memory * memory) * random.normal();
  }
  return series;
}

Series with_drift(Series series, double total) {
  for (std::size_t i = 0; i < series.size(); ++i)
    series[i] += total * static_cast<double>(i) / static_cast<double>(series.size() - 1);
  return series;
}

Series with_step(Series series, std::size_t first, double ratio) {
  for (std::size_t i = first; i < series.size(); ++i) series[i] += std::log(ratio);
  return series;
}

// What chance reaches is simulated once for all tests.
ChangePointFinder& finder() {
  static ChangePointFinder shared;
  return shared;
}

std::vector<ChangePoint> changes_in(const Series& logs, double own_variance = 0.0) {
  std::vector<Observation> series;
  for (const double value : logs) series.push_back({.log_rate = value, .own_variance = own_variance});
  return finder().find(series);
}

constexpr int trials = 200;

// How many of the seeded series satisfy this.
int count(const std::function<Series(Random&)>& make,
          const std::function<bool(const std::vector<ChangePoint>&)>& is) {
  int found = 0;
  for (int trial = 0; trial < trials; ++trial) {
    Random random(mix(2026, static_cast<std::uint64_t>(trial)));
    if (is(changes_in(make(random)))) ++found;
  }
  return found;
}

int false_alarms(const std::function<Series(Random&)>& make) {
  return count(make, [](const auto& changes) { return !changes.empty(); });
}

constexpr int tolerated = trials / 20;  // 5 %

TEST(ChangePoints, AreNotSeenInScatter) {
  for (const std::size_t n : {6, 8, 16, 40, 80}) {
    EXPECT_LE(false_alarms([&](Random& random) { return noise(random, n, 0.02); }), tolerated) << n;
    EXPECT_LE(false_alarms([&](Random& random) { return noise(random, n, 0.10); }), tolerated) << n;
  }
}

TEST(ChangePoints, AreNotSeenInNoiseThatRemembers) {
  for (const std::size_t n : {8, 16, 40, 80}) {
    EXPECT_LE(false_alarms([&](Random& random) { return noise(random, n, 0.02, 0.3); }), tolerated) << n;
    EXPECT_LE(false_alarms([&](Random& random) { return noise(random, n, 0.02, 0.5); }), tolerated) << n;
  }
  // More memory than that cannot be told from levels in so few results: it costs some false alarms.
  EXPECT_LE(false_alarms([&](Random& random) { return noise(random, 40, 0.02, 0.7); }), 2 * tolerated);
}

TEST(ChangePoints, AreNotSeenInADrift) {
  for (const std::size_t n : {16, 40, 80}) {
    for (const double total : {0.10, 0.30, -0.20}) {
      const auto drifting = [&](Random& random) { return with_drift(noise(random, n, 0.01), total); };
      EXPECT_LE(false_alarms(drifting), tolerated) << n << " " << total;
    }
  }
  EXPECT_LE(false_alarms([](Random& random) { return with_drift(noise(random, 24, 0.02), 0.1); }), tolerated);
}

TEST(ChangePoints, AreNotSeenInOutliers) {
  EXPECT_LE(false_alarms([](Random& random) {
              Series series = noise(random, 24, 0.01);
              for (double& value : series)
                if (random.uniform() < 0.1) value -= 0.1 * random.uniform();
              return series;
            }),
            tolerated);
}

TEST(ChangePoints, AreFoundWhereTheyAre) {
  for (const double ratio : {0.9, 1.1}) {
    const int found =
        count([&](Random& random) { return with_step(noise(random, 16, 0.02), 8, ratio); },
              [](const auto& changes) {
                return changes.size() == 1 && changes[0].first() >= 7 && changes[0].first() <= 9;
              });
    EXPECT_GE(found, trials * 95 / 100) << ratio;
  }
}

// A slip and its repair, which one cut alone would not see.
TEST(ChangePoints, AreFoundThoughTheyHideEachOther) {
  const int found =
      count([](Random& random) { return with_step(with_step(noise(random, 24, 0.02), 8, 0.9), 16, 1 / 0.9); },
            [](const auto& changes) {
              return changes.size() == 2 && changes[0].first() >= 7 && changes[0].first() <= 9 &&
                     changes[1].first() >= 15 && changes[1].first() <= 17;
            });
  EXPECT_GE(found, trials * 95 / 100);
}

TEST(ChangePoints, SayHowMuchChanged) {
  int held = 0;
  for (int trial = 0; trial < trials; ++trial) {
    Random random(mix(77, static_cast<std::uint64_t>(trial)));
    const auto changes = changes_in(with_step(noise(random, 20, 0.01), 10, 0.85));
    ASSERT_EQ(changes.size(), 1U) << trial;
    EXPECT_NEAR(changes[0].ratio, 0.85, 0.03);
    EXPECT_LT(changes[0].low, changes[0].ratio);
    if (changes[0].low <= 0.85 && 0.85 <= changes[0].high) ++held;
  }
  EXPECT_GE(held, trials * 93 / 100);
}

TEST(ChangePoints, AreFoundOneByOne) {
  Random random(5);
  const auto changes = changes_in(with_step(with_step(noise(random, 36, 0.01), 12, 1.2), 24, 0.7));
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].first(), 12U);
  EXPECT_EQ(changes[1].first(), 24U);
  EXPECT_NEAR(changes[0].ratio, 1.2, 0.03);
  EXPECT_NEAR(changes[1].ratio, 0.7, 0.03);
}

TEST(ChangePoints, AreNotWorthSayingBelowTwoPercent) {
  Random random(3);
  EXPECT_TRUE(changes_in(with_step(noise(random, 40, 0.0005), 20, 1.015)).empty());
  EXPECT_EQ(changes_in(with_step(noise(random, 40, 0.0005), 20, 1.03)).size(), 1U);
}

// The first cut takes the two later levels for one; the second cut tells them apart, and with them the sizes.
TEST(ChangePoints, AreSizedByTheLevelsBesideThemAtLast) {
  Random random(6);
  const auto changes = changes_in(with_step(with_step(noise(random, 60, 0.01), 20, 0.7), 40, 0.8 / 0.7));
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].first(), 20U);
  EXPECT_EQ(changes[0].after.end, 40U);
  EXPECT_NEAR(changes[0].ratio, 0.7, 0.01);
  EXPECT_LE(changes[0].low, 0.7);
  EXPECT_GE(changes[0].high, 0.7);
  EXPECT_EQ(changes[1].first(), 40U);
  EXPECT_NEAR(changes[1].ratio, 0.8 / 0.7, 0.015);
}

// Two results at a new level would draw a good one in; the third makes it a level.
TEST(ChangePoints, WaitForTheThirdResultOfALevel) {
  const auto is_right = [](const auto& changes) {
    return changes.size() == 1 && changes[0].first() == 20 && std::abs(changes[0].ratio - 0.9) < 0.02;
  };
  const auto after_good = [](std::size_t n) {
    return [n](Random& random) { return with_step(noise(random, 20 + n, 0.01), 20, 0.9); };
  };
  for (const std::size_t n : {1, 2}) EXPECT_LE(false_alarms(after_good(n)), trials / 50) << n;
  EXPECT_GE(count(after_good(3), is_right), trials * 95 / 100);
  const auto before_good = [](Random& random) { return with_step(noise(random, 22, 0.01), 2, 1.1); };
  EXPECT_LE(false_alarms(before_good), trials / 50);
  const auto slip_of_two = [](Random& random) {
    return with_step(with_step(noise(random, 42, 0.01), 20, 0.9), 22, 1 / 0.9);
  };
  EXPECT_LE(false_alarms(slip_of_two), tolerated);
}

// What may become a level does not hide an older change.
TEST(ChangePoints, AreSeenBesideWhatIsNoLevelYet) {
  const int found = count(
      [](Random& random) { return with_step(with_step(noise(random, 22, 0.01), 10, 0.85), 20, 0.9); },
      [](const auto& changes) {
        return changes.size() == 1 && changes[0].first() == 10 && std::abs(changes[0].ratio - 0.85) < 0.03;
      });
  EXPECT_GE(found, trials * 95 / 100);
}

TEST(ChangePoints, AreFoundInAStaircase) {
  for (const std::size_t levels : {4, 5, 6}) {
    const auto staircase = [&](Random& random) {
      Series series = noise(random, 10 * levels, 0.01);
      for (std::size_t i = 0; i < series.size(); ++i)
        series[i] += std::log(1.0 - 0.1 * static_cast<double>(i / 10));
      return series;
    };
    const int found = count(staircase, [&](const auto& changes) { return changes.size() == levels - 1; });
    EXPECT_GE(found, trials * 95 / 100) << levels;
  }
}

// Three rounds that agree by luck say nothing where the rounds within them scatter as much as the step.
TEST(ChangePoints, TakeTheResultsOwnScatterForTheLeastNoise) {
  const Series lucky = {0.0, 0.001, 0.0005, 0.1, 0.1005, 0.101};
  EXPECT_EQ(changes_in(lucky).size(), 1U);
  EXPECT_TRUE(changes_in(lucky, 0.05 * 0.05).empty());
}

TEST(ChangePoints, NeedThreeResultsOnEitherSide) {
  EXPECT_TRUE(changes_in({}).empty());
  EXPECT_TRUE(changes_in({0, 0, 0, 1, 1}).empty());
  const auto changes = changes_in({0, 0, 0, 1, 1, 1});
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].first(), 3U);
  EXPECT_NEAR(changes[0].ratio, std::exp(1.0), 1e-6);
  EXPECT_TRUE(changes_in({2, 2, 2, 2, 2, 2, 2, 2}).empty());
}

TEST(ChangePoints, AreTheSameEveryTime) {
  Random random(9);
  std::vector<Observation> series;
  for (const double value : with_step(noise(random, 30, 0.02), 11, 1.12)) series.push_back({value, 1e-5});
  const auto first = ChangePointFinder().find(series);
  const auto second = ChangePointFinder().find(series);
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(first[0].first(), 11U);
  EXPECT_EQ(first[0].first(), second[0].first());
  EXPECT_EQ(first[0].low, second[0].low);
}

TEST(ChangePoints, AreFoundInALongSeries) {
  Random random(4);
  Series series = noise(random, 700, 0.02);
  for (const std::size_t first : {100, 250, 600})
    series = with_step(series, first, first == 250 ? 1.15 : 0.9);
  const auto changes = changes_in(series);
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_NEAR(static_cast<double>(changes[0].first()), 100.0, 1.0);
  EXPECT_NEAR(static_cast<double>(changes[1].first()), 250.0, 1.0);
  EXPECT_NEAR(static_cast<double>(changes[2].first()), 600.0, 1.0);
}

}  // namespace
}  // namespace dtrain::history
