#include "stats/steadiness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synthetic.hpp"

namespace dtrain::stats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rounds of one second at given rates.
measure::RunSamples with_rates(const std::vector<double>& rates) {
  auto run = make_run("mirrored-2", 2);
  for (const double rate : rates) {
    measure::RoundSample round;
    round.steps = 30;
    round.images = static_cast<std::int64_t>(rate);
    round.seconds = 1.0;
    round.calibration_seconds = 5 * ms;
    round.step_seconds.assign(30, 1.0 / 30);
    run.rounds.push_back(round);
  }
  return run;
}

std::string only_reason(const measure::RunSamples& run) {
  const Steadiness steadiness = judge(run);
  EXPECT_FALSE(steadiness.stable);
  EXPECT_EQ(steadiness.reasons.size(), 1U);
  return steadiness.reasons.empty() ? "" : steadiness.reasons.front();
}

TEST(Steadiness, AQuietRunIsStable) {
  const Steadiness steadiness = judge(with_rates({1000, 1010, 995, 1004, 990}));
  EXPECT_TRUE(steadiness.stable);
  EXPECT_TRUE(steadiness.reasons.empty());
}

TEST(Steadiness, SeesADriftAndTellsWhoseItIs) {
  auto run = with_rates({1000, 985, 970, 955, 940});
  EXPECT_THAT(only_reason(run), HasSubstr("-6.0 % from the first to the last round"));
  EXPECT_THAT(only_reason(run), HasSubstr("comes from the program"));
  for (std::size_t i = 0; i < 5; ++i)
    run.rounds[i].calibration_seconds *= 1.0 + 0.015 * static_cast<double>(i);
  EXPECT_THAT(only_reason(run), HasSubstr("machine's own speed change by -5.7 %"));
}

TEST(Steadiness, SeesANoisyDrift) {
  Random random(2);
  int seen = 0;
  int false_alarms = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> drifting;
    std::vector<double> still;
    for (int i = 0; i < 10; ++i) {
      drifting.push_back(1000.0 * (1.0 - 0.02 * i) * (1.0 + 0.01 * random.normal()));
      still.push_back(1000.0 * (1.0 + 0.01 * random.normal()));
    }
    seen += std::abs(significant_drift(drifting)) > drift_limit ? 1 : 0;
    false_alarms += std::abs(significant_drift(still)) > drift_limit ? 1 : 0;
  }
  EXPECT_GE(seen, 195);
  EXPECT_EQ(false_alarms, 0);
}

TEST(SignificantDrift, IsTheTheilSenChangeOfASureTrend) {
  EXPECT_NEAR(significant_drift(std::vector<double>{100, 110, 121, 133.1, 146.41}), 0.4641, 1e-12);
  EXPECT_NEAR(significant_drift(std::vector<double>{160, 80, 40, 20, 10}), -0.9375, 1e-12);
  EXPECT_EQ(significant_drift(std::vector<double>{100, 110, 120, 130, 125}), 0.0);  // not sure enough
  EXPECT_EQ(significant_drift(std::vector<double>{100, 110, 120}), 0.0);            // too few
  EXPECT_EQ(significant_drift(std::vector<double>(9, 5.0)), 0.0);
  EXPECT_EQ(significant_drift({}), 0.0);
}

TEST(SignificantDrift, NeverLosesMoreThanAll) {
  std::vector<double> falling;
  for (int i = 0; i < 10; ++i) falling.push_back(20000.0 - 2000.0 * i);
  EXPECT_GT(significant_drift(falling), -0.9);  // what the last round lost
  EXPECT_LT(significant_drift(falling), -0.7);
}

TEST(Steadiness, SeesRoundsThatDiffer) {
  EXPECT_THAT(only_reason(with_rates({1000, 1200, 950, 1100, 1010})),
              HasSubstr("known to no better than ±12.4 % (rounds from 950 to 1200 images/s)"));
}

TEST(Steadiness, OneRoundSaysNothingOfItsSpread) {
  EXPECT_THAT(only_reason(with_rates({1000})), HasSubstr("only one round"));
}

TEST(Steadiness, NoRoundsSayWhy) {
  auto run = with_rates({});
  EXPECT_THAT(only_reason(run), HasSubstr("no round was measured"));
  run.failure = "rank 1 died";
  EXPECT_THAT(only_reason(run), HasSubstr("rank 1 died"));
}

TEST(Steadiness, SeesWhatTheMachineDidBeside) {
  const auto with_noise = [](const measure::NoiseReading& noise) {
    auto run = with_rates({1000, 1010, 995, 1004, 990});
    run.noise = noise;
    return run;
  };
  EXPECT_THAT(only_reason(with_noise({.foreign_load = 0.5})), HasSubstr("0.50 cores busy"));
  EXPECT_THAT(only_reason(with_noise({.stolen = 0.2})), HasSubstr("hypervisor took 0.20 cores"));
  EXPECT_THAT(only_reason(with_noise({.throttled_seconds = 0.5})), HasSubstr("quota"));
  EXPECT_THAT(only_reason(with_noise({.calibration_spread = 0.25})), HasSubstr("25.0 %"));
  EXPECT_TRUE(
      judge(with_noise(
                {.foreign_load = 0.1, .stolen = 0.01, .throttled_seconds = 0.01, .calibration_spread = 0.05}))
          .stable);
  EXPECT_EQ(judge(with_noise({0.5, 0.2, 0.5, 0.25})).reasons.size(), 4U);
}

TEST(Steadiness, SeesWhatHeldAGpuBack) {
  auto run = with_rates({1000, 1010, 995, 1004, 990});
  config::DeviceCondition gpu;
  gpu.device = 3;
  gpu.clock_mhz = 1410;
  gpu.highest_clock_mhz = 1980;
  run.noise.devices = {gpu};
  EXPECT_TRUE(judge(run).stable) << "somebody may have set the clock";
  run.noise.devices[0].slowed_by = {"heat"};
  EXPECT_THAT(only_reason(run), HasSubstr("GPU 3 was slowed by heat to 1410 of 1980 MHz"));
  run.noise.devices[0].clock_mhz = 1950;
  EXPECT_TRUE(judge(run).stable) << "a little below the highest";
  run.noise.devices[0].other_processes = 1;
  run.noise.devices[0].other_bytes = 1 << 20;
  EXPECT_THAT(only_reason(run), HasSubstr("1 other process used GPU 3 (1.0 MiB)"));
}

TEST(Steadiness, DoesNotJudgeLoadByAFewTicks) {
  auto run = with_rates({1000, 1010, 995});
  for (auto& round : run.rounds) {
    round.seconds *= 0.05;
    round.images /= 20;
  }
  run.noise.foreign_load = 0.5;
  EXPECT_TRUE(judge(run).stable);
}

TEST(Steadiness, SeesTwoKindsOfSteps) {
  auto run = with_rates({1000, 1010, 995, 1004, 990});
  for (auto& round : run.rounds) {
    for (std::size_t i = 0; i < round.step_seconds.size(); ++i) {
      round.step_seconds[i] = (i % 3 == 0 ? 50 : 25) * ms + static_cast<double>(i) * 1e-6;
    }
  }
  EXPECT_THAT(only_reason(run), HasSubstr("33 % take about 50.01 ms, the others 25.01 ms"));
}

TEST(SplitInTwo, FindsNoGroupsInOneHump) {
  Random random(3);
  std::vector<double> normal(1000);
  std::vector<double> uniform(1000);
  std::vector<double> tailed(1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    normal[i] = 10.0 + random.normal();
    uniform[i] = random.uniform();
    tailed[i] = i % 20 == 0 ? 30.0 : 10.0 + 0.1 * random.normal();
  }
  EXPECT_FALSE(split_in_two(normal).found);
  EXPECT_FALSE(split_in_two(uniform).found);
  EXPECT_FALSE(split_in_two(tailed).found);
  EXPECT_FALSE(split_in_two(std::vector<double>(1000, 1.0)).found);
  EXPECT_FALSE(split_in_two({1.0, 2.0}).found);
  EXPECT_FALSE(split_in_two({}).found);
}

}  // namespace
}  // namespace dtrain::stats
