#include "stats/evidence.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "stats/interval.hpp"

namespace dtrain::stats {
namespace {

std::vector<double> normal(Random& random, std::size_t n, double middle, double deviation) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(middle + deviation * random.normal());
  return values;
}

// Worked by hand: means 0.02 and -0.08, variances of five rounds each 0.00025, so that the error of the
// difference is sqrt(2 x 0.00005) = 0.01 and there are 8 degrees of freedom.
TEST(Unpaired, IsWelchsTest) {
  const RunLogs base{{0.00, 0.01, 0.02, 0.03, 0.04}};
  const RunLogs next{{-0.10, -0.09, -0.08, -0.07, -0.06}};
  const auto evidence = unpaired_evidence(base, next, 0.0);
  EXPECT_NEAR(evidence->estimate(), -0.10, 1e-12);
  const Bounds bounds = evidence->interval(0.95);
  EXPECT_NEAR(bounds.low, -0.10 - 2.306004 * 0.01, 1e-7);  // t of 8 degrees at 97.5 %
  EXPECT_NEAR(bounds.high, -0.10 + 2.306004 * 0.01, 1e-7);
  EXPECT_NEAR(evidence->p_below(-0.10 + 2.306004 * 0.01), 0.025, 1e-6);
  EXPECT_NEAR(evidence->p_above(-0.10 - 2.306004 * 0.01), 0.025, 1e-6);
}

TEST(Unpaired, WhatIsAssumedBetweenRunsAddsUp) {
  const RunLogs base{{0.00, 0.01, 0.02, 0.03, 0.04}};
  const RunLogs next{{-0.10, -0.09, -0.08, -0.07, -0.06}};
  // Error sqrt(0.0001 + 2 x 0.01^2) = 0.017321; degrees 0.0003^2 / (2 x 0.00005^2 / 4) = 72.
  const Bounds bounds = unpaired_evidence(base, next, 0.01)->interval(0.95);
  EXPECT_NEAR(0.5 * (bounds.high - bounds.low), 1.993464 * std::sqrt(0.0003), 1e-6);
}

TEST(Unpaired, ThreeRunsASideShowTheirOwnSpread) {
  const RunLogs base{{0.00, 0.00}, {0.03, 0.03}, {0.06, 0.06}};
  const RunLogs next{{0.00, 0.00}, {0.03, 0.03}, {0.06, 0.06}};
  const auto evidence = unpaired_evidence(base, next, 0.5);
  const Bounds bounds = evidence->interval(0.95);
  EXPECT_DOUBLE_EQ(evidence->estimate(), 0.0);
  EXPECT_NEAR(bounds.high, 2.776445 * std::sqrt(2.0 * 0.0009 / 3.0), 1e-6);  // t of 4 degrees
}

// A kept baseline of several runs, and one new run: the runs of the base say how far a run may lie from their
// mean.
TEST(Unpaired, RunsOfOneSideTellForBoth) {
  const RunLogs base{{0.00, 0.00}, {0.03, 0.03}, {0.06, 0.06}};
  const Bounds bounds = unpaired_evidence(base, {{0.03, 0.03, 0.03}}, 0.5)->interval(0.95);
  EXPECT_NEAR(bounds.high, 4.302653 * std::sqrt(0.0009 / 3.0 + 0.0009), 1e-6);  // t of 2 degrees
}

TEST(Unpaired, ASideOfFewScatteredRoundsIsKnownLess) {
  const RunLogs base{{0.000, 0.000}, {0.001, 0.001}, {0.002, 0.002}};
  const RunLogs scattered{{-0.1, 0.0, 0.1}};
  const Bounds bounds = unpaired_evidence(base, scattered, 0.0)->interval(0.95);
  EXPECT_GE(0.5 * (bounds.high - bounds.low), 4.302 * 0.1 / std::sqrt(3.0));
}

TEST(Unpaired, OneRoundTellsNothing) {
  const auto evidence = unpaired_evidence({{0.0}}, {{-1.0, -1.1, -0.9}}, 0.01);
  EXPECT_TRUE(std::isinf(evidence->interval(0.95).low));
  EXPECT_TRUE(std::isinf(evidence->interval(0.95).high));
  EXPECT_EQ(evidence->p_below(0.0), 1.0);
}

TEST(Unpaired, RoundsWithoutScatterAreSureOfWhatTheyShow) {
  const auto evidence = unpaired_evidence({{1.0, 1.0, 1.0}}, {{0.9, 0.9, 0.9}}, 0.0);
  EXPECT_EQ(evidence->p_below(-0.05), 0.0);
  EXPECT_EQ(evidence->p_below(-0.2), 1.0);
}

TEST(Unpaired, SidesSwappedTurnTheSign) {
  Random random(7);
  const RunLogs a{normal(random, 5, 0.0, 0.02)};
  const RunLogs b{normal(random, 7, 0.1, 0.03)};
  const auto forth = unpaired_evidence(a, b, 0.01);
  const auto back = unpaired_evidence(b, a, 0.01);
  EXPECT_NEAR(forth->estimate(), -back->estimate(), 1e-15);
  EXPECT_NEAR(forth->interval(0.9).low, -back->interval(0.9).high, 1e-12);
  EXPECT_NEAR(forth->p_below(0.05), back->p_above(-0.05), 1e-12);
}

TEST(Unpaired, OrderOfRoundsAndUnitsDoNotMatter) {
  const RunLogs base{{0.00, 0.01, 0.05}};
  const RunLogs next{{0.10, 0.12, 0.11}};
  const RunLogs base_in_other_units{{3.05, 3.00, 3.01}};
  const RunLogs next_in_other_units{{3.12, 3.11, 3.10}};
  const auto one = unpaired_evidence(base, next, 0.01);
  const auto other = unpaired_evidence(base_in_other_units, next_in_other_units, 0.01);
  EXPECT_NEAR(one->estimate(), other->estimate(), 1e-12);
  EXPECT_NEAR(one->interval(0.95).low, other->interval(0.95).low, 1e-9);
}

TEST(Unpaired, IntervalsHoldTheTruthAsOftenAsTheySay) {
  constexpr int trials = 2000;
  constexpr double between = 0.01;
  int covered = 0;
  for (int seed = 0; seed < trials; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const RunLogs base{normal(random, 5, between * random.normal(), 0.02)};
    const RunLogs next{normal(random, 5, -0.03 + between * random.normal(), 0.03)};
    const Bounds bounds = unpaired_evidence(base, next, between)->interval(0.95);
    covered += bounds.low <= -0.03 && -0.03 <= bounds.high ? 1 : 0;
  }
  EXPECT_GE(covered, 0.935 * trials);
  EXPECT_LE(covered, 0.975 * trials);
}

// What docs/ci.md says of kept results, where rounds scatter by 5 % and runs by 1 %.
TEST(Unpaired, KeptResultsAreKnownByTheirOwnFewDegreesOfFreedom) {
  constexpr int trials = 1000;
  constexpr double between = 0.01;
  for (const auto& [kept, half_width] : {std::pair(1, 0.053), {3, 0.093}, {5, 0.057}, {10, 0.044}}) {
    int covered = 0;
    std::vector<double> halves;
    for (int seed = 0; seed < trials; ++seed) {
      Random random(static_cast<std::uint64_t>(seed));
      RunLogs base;
      for (int run = 0; run < kept; ++run)
        base.push_back(normal(random, 10, between * random.normal(), 0.05));
      const RunLogs next{normal(random, 10, between * random.normal(), 0.05)};
      const Bounds bounds = unpaired_evidence(base, next, between)->interval(0.95);
      covered += bounds.low <= 0.0 && 0.0 <= bounds.high ? 1 : 0;
      halves.push_back(0.5 * (bounds.high - bounds.low));
    }
    EXPECT_GE(covered, 0.94 * trials) << kept;
    EXPECT_NEAR(median(halves), half_width, 0.12 * half_width) << kept;
  }
}

// Walsh averages of 1, 2, 4: 1, 1.5, 2, 2.5, 3, 4.
TEST(Paired, IsTheSignedRankTest) {
  const auto evidence = paired_evidence({2.0, 1.0, 4.0});
  EXPECT_DOUBLE_EQ(evidence->estimate(), 2.25);
  EXPECT_DOUBLE_EQ(evidence->p_above(0.0), 0.125);  // all signs alike: one way of eight
  EXPECT_DOUBLE_EQ(evidence->p_below(0.0), 1.0);
  EXPECT_DOUBLE_EQ(evidence->p_above(1.2), 0.25);  // one average at or below: rank sums 0 and 1
  const Bounds bounds = evidence->interval(0.75);
  EXPECT_DOUBLE_EQ(bounds.low, 1.0);
  EXPECT_DOUBLE_EQ(bounds.high, 4.0);
  EXPECT_TRUE(std::isinf(evidence->interval(0.95).low));
}

// From published tables: for 10 pairs a rank sum of at most 8 has a two-sided chance of 4.9 %.
TEST(Paired, AgreesWithPublishedTables) {
  std::vector<double> differences;
  for (int i = 1; i <= 10; ++i) differences.push_back(i);
  differences[7] = -8.0;  // one negative, of rank 8
  EXPECT_NEAR(2.0 * paired_evidence(differences)->p_above(0.0), 0.048828125, 1e-12);
}

TEST(Paired, OneWildPairCostsLittle) {
  Random random(3);
  auto differences = normal(random, 20, -0.05, 0.01);
  const double calm = paired_evidence(differences)->estimate();
  differences[4] = 3.0;
  const auto wild = paired_evidence(differences);
  EXPECT_NEAR(wild->estimate(), calm, 0.005);
  EXPECT_LT(wild->interval(0.95).high, -0.04);
}

TEST(Paired, PairsSwappedTurnTheSign) {
  Random random(5);
  const auto differences = normal(random, 12, 0.02, 0.05);
  std::vector<double> turned;
  for (const double value : differences) turned.push_back(-value);
  const auto forth = paired_evidence(differences);
  const auto back = paired_evidence(turned);
  EXPECT_NEAR(forth->estimate(), -back->estimate(), 1e-15);
  EXPECT_NEAR(forth->interval(0.95).low, -back->interval(0.95).high, 1e-15);
  EXPECT_NEAR(forth->p_below(0.01), back->p_above(-0.01), 1e-15);
}

TEST(Paired, IntervalsHoldTheTruthAsOftenAsTheySay) {
  constexpr int trials = 2000;
  int covered = 0;
  for (int seed = 0; seed < trials; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    std::vector<double> differences;
    for (int i = 0; i < 16; ++i) {  // heavy tails: one in eight is ten times as wide
      const double width = random.uniform() < 0.125 ? 0.2 : 0.02;
      differences.push_back(-0.02 + width * random.normal());
    }
    const Bounds bounds = paired_evidence(differences)->interval(0.95);
    covered += bounds.low <= -0.02 && -0.02 <= bounds.high ? 1 : 0;
  }
  EXPECT_GE(covered, 0.94 * trials);
  EXPECT_LE(covered, 0.975 * trials);
}

TEST(Exact, IsSureOfItself) {
  const auto evidence = exact_evidence(-0.1);
  EXPECT_EQ(evidence->estimate(), -0.1);
  EXPECT_EQ(evidence->p_below(-0.05), 0.0);
  EXPECT_EQ(evidence->p_below(-0.1), 1.0);
  EXPECT_EQ(evidence->p_above(-0.2), 0.0);
}

}  // namespace
}  // namespace dtrain::stats
