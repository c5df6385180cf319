#include "stats/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.hpp"
#include "synthetic.hpp"

namespace dtrain::stats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const RankStep plain_step{};

// Plain base, N = 1, 2, 4 under weak scaling; communication costs 4 ms at 2 and 8 ms at 4.
measure::Samples sweep(int rounds = 5) {
  measure::Samples samples;
  samples.runs = {make_run("plain", 1, Base::plain), make_run("mirrored-1", 1, Base::strategy),
                  make_run("mirrored-2", 2), make_run("mirrored-4", 4)};
  for (int i = 0; i < rounds; ++i) {
    samples.runs[0].rounds.push_back(make_round({{.update = 1 * ms}}, 100, 64));
    samples.runs[1].rounds.push_back(make_round({plain_step}, 100, 64));
    samples.runs[2].rounds.push_back(
        make_round(std::vector<RankStep>(2, {.communication = 4 * ms}), 100, 128));
    samples.runs[3].rounds.push_back(
        make_round(std::vector<RankStep>(4, {.communication = 8 * ms}), 100, 256));
  }
  samples.complete = true;
  return samples;
}

TEST(Summarise, GivesRatesSpeedupsAndEfficiencies) {
  const auto samples = sweep();
  const Summary summary = summarise(samples);
  ASSERT_EQ(summary.runs.size(), 4U);
  EXPECT_NEAR(summary.runs[1].images_per_second.median, 64 / 0.032, 1e-6);
  EXPECT_EQ(summary.runs[1].images_per_second.rounds, 5);
  EXPECT_NEAR(summary.runs[3].images_per_second.median, 256 / 0.040, 1e-6);
  EXPECT_NEAR(summary.runs[3].mean_step_seconds.median, 0.040, 1e-12);
  EXPECT_NEAR(summary.runs[3].step_seconds.p99, 0.040, 1e-12);
  EXPECT_NEAR(summary.runs[2].speedup->median, 2 * 32.0 / 36.0, 1e-9);
  EXPECT_NEAR(summary.runs[3].speedup->median, 4 * 0.8, 1e-9);
  EXPECT_NEAR(summary.runs[3].efficiency->median, 0.8, 1e-9);
  EXPECT_NEAR(summary.runs[3].efficiency_against_plain->median, 31.0 / 40.0, 1e-9);
  EXPECT_EQ(summary.runs[3].efficiency_reason, "");
  EXPECT_TRUE(summary.runs[3].budget);
  EXPECT_THAT(summary.warnings, IsEmpty());
}

TEST(Summarise, BasesHaveNoEfficiencyOfTheirOwn) {
  const auto samples = sweep();
  const Summary summary = summarise(samples);
  for (const std::size_t base : {0, 1}) {
    EXPECT_FALSE(summary.runs[base].speedup);
    EXPECT_FALSE(summary.runs[base].efficiency);
    EXPECT_FALSE(summary.runs[base].budget);
    EXPECT_THAT(summary.runs[base].efficiency_reason, HasSubstr("base"));
  }
  EXPECT_FALSE(summary.runs[0].efficiency_against_plain);
  EXPECT_NEAR(summary.runs[1].efficiency_against_plain->median, 31.0 / 32.0,
              1e-9);  // what the strategy costs
}

TEST(Summarise, StrongScalingIsARatioOfRatesToo) {
  auto samples = sweep();
  for (auto& round : samples.runs[3].rounds) {
    round = make_round(std::vector<RankStep>(4, {.forward = 3 * ms, .backward = 5 * ms, .update = 2 * ms}),
                       100, 64);
  }
  const Summary summary = summarise(samples, config::Scaling::strong);
  EXPECT_NEAR(summary.runs[3].speedup->median, 3.2, 1e-9);
  EXPECT_NEAR(summary.runs[3].efficiency->median, 0.8, 1e-9);
  EXPECT_NEAR(summary.runs[3].budget->useful_percent, 80.0, 1e-9);
  EXPECT_THAT(summary.verdict, HasSubstr("strong scaling"));
}

TEST(Summarise, PairsRoundsSoThatDriftCancels) {
  auto samples = sweep();
  for (auto& run : samples.runs) {
    for (std::size_t i = 0; i < 5; ++i) run.rounds[i].seconds *= 1.0 + 0.1 * static_cast<double>(i);
  }
  const Interval efficiency = *summarise(samples).runs[3].efficiency;
  EXPECT_NEAR(efficiency.low, 0.8, 1e-9);
  EXPECT_NEAR(efficiency.high, 0.8, 1e-9);
}

TEST(Summarise, UsesCountedImagesNotTheBatch) {
  auto samples = sweep();
  for (auto& round : samples.runs[3].rounds) round.images -= 128;  // the remainder of an epoch was short
  EXPECT_NEAR(summarise(samples).runs[3].images_per_second.median, (25600.0 - 128.0) / 4.0, 1e-6);
}

TEST(Summarise, SimulatedRunsAreNeverScaling) {
  auto samples = sweep();
  samples.runs[3].plan.simulated = true;
  samples.runs[3].plan.simulated_reason = "4 replicas share 2 cores";
  const SummaryInput input{
      .samples = &samples, .training_flops_per_image = 1e6, .peak_flops_per_replica = 1e12};
  const Summary summary = summarise(input);
  const RunSummary& run = summary.runs[3];
  EXPECT_FALSE(run.speedup);
  EXPECT_FALSE(run.efficiency);
  EXPECT_FALSE(run.efficiency_against_plain);
  EXPECT_FALSE(run.peak_share);
  EXPECT_EQ(run.efficiency_reason, "simulated: 4 replicas share 2 cores");
  EXPECT_GT(run.images_per_second.median, 0.0);
  EXPECT_THAT(summary.verdict, AllOf(HasSubstr("At N = 2"), HasSubstr("N = 4 is simulated")));
}

TEST(Summarise, OnlySimulatedRunsSayNothingOfScaling) {
  auto samples = sweep();
  for (const std::size_t i : {2, 3}) {
    samples.runs[i].plan.simulated = true;
    samples.runs[i].plan.simulated_reason = "replicas share 1 core";
  }
  EXPECT_THAT(summarise(samples).verdict,
              AllOf(HasSubstr("Nothing can be said about scaling to N = 4"), HasSubstr("share 1 core")));
}

TEST(Summarise, AFailedRunSaysWhyAndLeavesTheOthers) {
  auto samples = sweep();
  samples.runs[3].failure = "rank 2 was lost";
  samples.runs[3].rounds.resize(2);
  const Summary summary = summarise(samples);
  EXPECT_FALSE(summary.runs[3].efficiency);
  EXPECT_FALSE(summary.runs[3].budget);
  EXPECT_EQ(summary.runs[3].efficiency_reason, "the run failed: rank 2 was lost");
  EXPECT_NEAR(summary.runs[3].images_per_second.median, 6400, 1e-6);
  EXPECT_TRUE(summary.runs[2].efficiency);
  EXPECT_THAT(summary.verdict, AllOf(HasSubstr("At N = 2"), HasSubstr("N = 4 failed")));
  ASSERT_EQ(summary.warnings.size(), 1U);
  EXPECT_THAT(summary.warnings[0], HasSubstr("mirrored-4 failed after 2 rounds: rank 2 was lost"));
}

TEST(Summarise, AFailedBaseLeavesNothingToHoldAgainst) {
  auto samples = sweep();
  samples.runs[1].failure = "out of luck";
  const Summary summary = summarise(samples);
  EXPECT_FALSE(summary.runs[3].efficiency);
  EXPECT_FALSE(summary.runs[3].budget);
  EXPECT_THAT(summary.runs[3].efficiency_reason, AllOf(HasSubstr("mirrored-1"), HasSubstr("out of luck")));
  EXPECT_TRUE(summary.runs[3].efficiency_against_plain);
  EXPECT_THAT(summary.verdict, HasSubstr("out of luck"));
}

TEST(Summarise, WithoutABaseThereIsNoEfficiency) {
  auto samples = sweep();
  samples.runs.erase(samples.runs.begin(), samples.runs.begin() + 2);
  const Summary summary = summarise(samples);
  EXPECT_FALSE(summary.runs[1].efficiency);
  EXPECT_THAT(summary.runs[1].efficiency_reason, HasSubstr("one replica was not measured"));
  EXPECT_FALSE(summary.runs[1].efficiency_against_plain);
}

TEST(Summarise, OneReplicaAlone) {
  auto samples = sweep();
  samples.runs.resize(2);
  const Summary summary = summarise(samples);
  EXPECT_THAT(summary.verdict, HasSubstr("Only one replica was measured"));
  EXPECT_THAT(summary.warnings, IsEmpty());
}

TEST(Summarise, OneRoundHasNumbersButNoInterval) {
  const auto samples = sweep(1);
  const Summary summary = summarise(samples);
  const RunSummary& run = summary.runs[3];
  EXPECT_EQ(run.efficiency->rounds, 1);
  EXPECT_EQ(run.efficiency->low, run.efficiency->high);
  EXPECT_NEAR(run.efficiency->median, 0.8, 1e-9);
  EXPECT_FALSE(run.steadiness.stable);
  EXPECT_THAT(summary.verdict, AllOf(HasSubstr("Unstable"), HasSubstr("only one round")));
}

TEST(Summarise, NoRoundsAndNoRuns) {
  auto samples = sweep(0);
  const Summary summary = summarise(samples);
  EXPECT_EQ(summary.runs.size(), 4U);
  EXPECT_EQ(summary.runs[3].images_per_second.median, 0.0);
  EXPECT_FALSE(summary.runs[3].efficiency);
  EXPECT_EQ(summary.runs[3].efficiency_reason, "no round was measured");
  EXPECT_THAT(summary.verdict, HasSubstr("no round was measured"));
  samples.runs.clear();
  EXPECT_EQ(summarise(samples).verdict, "Nothing was measured.");
}

TEST(Summarise, ReadsAResultOfAPeerWithoutPhases) {
  auto samples = sweep();
  for (auto& run : samples.runs) {
    for (auto& round : run.rounds) {
      round.ranks.clear();
      round.step_seconds.clear();
      round.steps = 0;
      round.calibration_seconds = 0.0;
    }
  }
  const Summary summary = summarise(samples);
  EXPECT_NEAR(summary.runs[3].efficiency->median, 0.8, 1e-9);
  EXPECT_FALSE(summary.runs[3].budget);
  EXPECT_EQ(summary.runs[3].mean_step_seconds.median, 0.0);
  EXPECT_EQ(summary.runs[3].step_seconds.p50, 0.0);
  EXPECT_THAT(summary.verdict, HasSubstr("80.0 % efficiency; the phases"));
}

TEST(Summarise, FlagsMoreThanAHundredPercent) {
  auto samples = sweep();
  for (auto& round : samples.runs[2].rounds) round.seconds *= 0.8;
  const Summary summary = summarise(samples);
  EXPECT_GT(summary.runs[2].efficiency->median, 1.0);  // shown as it is
  ASSERT_FALSE(summary.warnings.empty());
  EXPECT_THAT(summary.warnings[0], AllOf(HasSubstr("mirrored-2: 111.1 % efficiency"), HasSubstr("cache")));
}

TEST(Summarise, DoesNotFlagNoiseAboutAHundredPercent) {
  auto samples = sweep();
  const double factors[] = {0.99, 1.0, 1.01, 0.995, 1.005};
  for (std::size_t i = 0; i < 5; ++i) samples.runs[2].rounds[i].seconds = 3.19 * factors[i];
  EXPECT_THAT(summarise(samples).warnings, Not(::testing::Contains(HasSubstr("efficiency is more"))));
}

TEST(Summarise, WorksOutFlopsAndTheCostOfMeasuring) {
  auto samples = sweep();
  samples.runs[3].stamp_seconds = 40e-9;
  samples.runs[3].stamps_per_step = 10;
  const SummaryInput input{
      .samples = &samples, .training_flops_per_image = 2e7, .peak_flops_per_replica = 1e11};
  const Summary summary = summarise(input);
  EXPECT_NEAR(summary.runs[3].model_flops_per_second, 6400 * 2e7, 1.0);
  EXPECT_NEAR(*summary.runs[3].peak_share, 6400 * 2e7 / 4e11, 1e-9);
  EXPECT_NEAR(summary.runs[3].measuring_share, 400e-9 / 0.040, 1e-12);
  EXPECT_FALSE(summarise(samples).runs[3].peak_share);  // peak not known
}

TEST(Summarise, WorksOutTheShareOfTheBandwidth) {
  auto samples = sweep();
  const SummaryInput input{.samples = &samples,
                           .training_bytes_per_image = 1e6,
                           .update_bytes = 4e6,
                           .peak_bytes_per_replica = 1e10};
  const auto& run = summarise(input).runs[3];
  const double traffic = 6400 * 1e6 + 4 * 4e6 / 0.040;
  EXPECT_NEAR(run.model_bytes_per_second, traffic, 1e3);
  EXPECT_NEAR(*run.bandwidth_share, traffic / 4e10, 1e-9);
  EXPECT_FALSE(run.peak_share);
  samples.runs[3].plan.simulated = true;
  EXPECT_FALSE(summarise(input).runs[3].bandwidth_share);
}

TEST(Summarise, WarnsWhereTheClocksDisagree) {
  auto samples = sweep();
  auto& rounds = samples.runs[3].rounds;
  for (auto& round : rounds) round.wall_seconds = round.seconds + 0.01;
  EXPECT_TRUE(summarise(samples).warnings.empty()) << "threads need time to wake up";
  rounds[1].wall_seconds = rounds[1].seconds * 1.2;
  ASSERT_EQ(summarise(samples).warnings.size(), 1U);
  EXPECT_THAT(summarise(samples).warnings[0],
              AllOf(HasSubstr("mirrored-4"), HasSubstr("16.7 % apart"), HasSubstr("before the first step")));
  rounds[1].wall_seconds = rounds[1].seconds * 0.5;
  EXPECT_THAT(summarise(samples).warnings[0], HasSubstr("clock cannot be trusted"));
}

TEST(Summarise, WarnsOfWhatSpoilsARun) {
  auto samples = sweep();
  samples.runs[2].weights_agree = false;
  samples.runs[2].skipped_steps = 3;
  samples.runs[2].measured_steps = 500;
  samples.runs[3].stamp_seconds = 1e-3;
  samples.runs[3].stamps_per_step = 4;
  const Summary summary = summarise(samples);
  ASSERT_EQ(summary.warnings.size(), 3U);
  EXPECT_THAT(summary.warnings[0], HasSubstr("different weights"));
  EXPECT_THAT(summary.warnings[1], HasSubstr("3 of 500 steps were skipped"));
  EXPECT_THAT(summary.warnings[2], HasSubstr("measuring itself costs 10.0 %"));
}

TEST(Verdict, NamesTheLargestLoss) {
  const auto samples = sweep();
  EXPECT_EQ(summarise(samples).verdict,
            "At N = 4, weak scaling reaches 80.0 % efficiency; what limits it most is exposed communication "
            "(20.0 % of the step).");
}

TEST(Verdict, NamesTheStragglerWithAllThatItCosts) {
  for (const std::size_t n : {2UL, 4UL}) {
    std::vector<RankStep> ranks(n, {.communication = 2 * ms});
    ranks[1].input = 10 * ms;
    const auto samples = make_pair(plain_step, 64, ranks, static_cast<int>(64 * n));
    EXPECT_THAT(
        summarise(samples).verdict,
        HasSubstr("what limits it most is rank 1, last to arrive in 100 % of steps, 10.00 ms late, in input "
                  "(22.7 % of the step)"));
  }
}

TEST(Verdict, SaysWhenNothingIsLost) {
  auto samples = make_pair(plain_step, 64, std::vector<RankStep>(2, {.communication = 0.3 * ms}), 128);
  EXPECT_THAT(summarise(samples).verdict,
              HasSubstr("nothing limits it much: the largest loss is exposed communication"));
  samples = make_pair(plain_step, 64, std::vector<RankStep>(2, plain_step), 128);
  EXPECT_THAT(summarise(samples).verdict, HasSubstr("100.0 % efficiency"));
}

TEST(Verdict, TellsAnUnsteadyRunOrBase) {
  auto samples = sweep();
  samples.runs[3].noise.foreign_load = 0.8;
  EXPECT_THAT(summarise(samples).verdict, AllOf(HasSubstr("Unstable, so take with care: at N = 4"),
                                                HasSubstr("mirrored-4: other processes")));
  samples.runs[3].noise.foreign_load = 0.0;
  samples.runs[1].noise.foreign_load = 0.8;
  EXPECT_THAT(summarise(samples).verdict, HasSubstr("mirrored-1: other processes"));
}

TEST(Verdict, AllFailed) {
  auto samples = sweep(0);
  for (auto& run : samples.runs) run.failure = "no memory";
  EXPECT_THAT(summarise(samples).verdict, HasSubstr("no memory"));
  samples.runs.resize(1);
  EXPECT_EQ(summarise(samples).verdict, "Plain failed: no memory.");
}

TEST(Summarise, IsQuick) {
  measure::Samples samples = sweep();
  for (int n = 5; n <= 8; ++n) {
    samples.runs.push_back(samples.runs[3]);
    samples.runs.back().plan.replicas = n;
  }
  const TimePoint begin = Clock::now();
  summarise(samples);
  EXPECT_LT(seconds(Clock::now() - begin), 2.0);  // some 20 ms, unless a sanitizer watches
}

}  // namespace
}  // namespace dtrain::stats
