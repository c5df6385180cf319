#include "stats/doubt.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "synthetic.hpp"

namespace dtrain::stats {
namespace {

measure::RunSamples run_of(const std::vector<double>& rates) {
  measure::RunSamples run = make_run("mirrored-2", 2);
  for (const double rate : rates) {
    auto& round = run.rounds.emplace_back();
    round.images = 1000;
    round.steps = 10;
    round.seconds = 1000.0 / rate;
  }
  return run;
}

std::vector<double> logs(const std::vector<double>& rates) {
  std::vector<double> out;
  for (const double rate : rates) out.push_back(std::log(rate));
  return out;
}

const std::vector<double> steady{100, 101, 99, 100, 101};

TEST(Doubt, NoneOfASteadyRun) { EXPECT_TRUE(doubts(run_of(steady), logs(steady), 2).empty()); }

TEST(Doubt, DriftMayHaveGoneEitherWay) {
  const std::vector<double> rates{100, 110, 121, 133.1, 146.41};
  const std::vector<double> falling(rates.rbegin(), rates.rend());
  for (const auto& drifting : {rates, falling}) {
    const auto found = doubts(run_of(drifting), logs(drifting), 2);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_NEAR(found[0].share, 1.0 - 1.0 / 1.21, 1e-9);  // to the middle
    EXPECT_FALSE(found[0].only_slows);
  }
}

TEST(Doubt, DriftThatCalibrationTookOutIsNone) {
  const std::vector<double> rates{100, 105, 110, 115, 120};
  EXPECT_TRUE(doubts(run_of(rates), logs(steady), 2).empty());
}

TEST(Doubt, LoadCountsByItsShareOfTheMachine) {
  auto run = run_of({100, 101, 99, 100, 101});
  run.noise.foreign_load = 0.5;
  run.noise.stolen = 0.2;
  for (auto& round : run.rounds) round.seconds = 1.0;
  run.noise.throttled_seconds = 0.5;
  const auto found = doubts(run, logs(steady), 4);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NEAR(found[0].share, 0.125, 1e-12);
  EXPECT_NEAR(found[1].share, 0.05, 1e-12);
  EXPECT_NEAR(found[2].share, 0.1, 1e-12);
  for (const auto& doubt : found) EXPECT_TRUE(doubt.only_slows);
}

TEST(Doubt, LittleLoadIsNone) {
  auto run = run_of(steady);
  run.noise.foreign_load = 0.1;
  run.noise.stolen = 0.01;
  EXPECT_TRUE(doubts(run, logs(steady), 2).empty());
}

TEST(Doubt, AGpuThatOthersUsedSaysNothing) {
  auto run = run_of(steady);
  run.noise.devices.push_back({});
  run.noise.devices.back().other_processes = 1;
  const auto found = doubts(run, logs(steady), 2);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].share, 1.0);
}

TEST(Doubt, ASlowedGpuMayHaveLostItsClock) {
  auto run = run_of(steady);
  auto& device = run.noise.devices.emplace_back();
  device.clock_mhz = 1500;
  device.highest_clock_mhz = 2000;
  device.slowed_by = {"heat"};
  const auto found = doubts(run, logs(steady), 2);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].share, 0.25, 1e-12);
}

}  // namespace
}  // namespace dtrain::stats
