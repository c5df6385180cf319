#include "stats/choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.hpp"
#include "synthetic.hpp"

namespace dtrain::stats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

measure::RunSamples run_of(const std::string& strategy, double step_ms, std::size_t bytes,
                           double wobble = 0.0) {
  measure::RunSamples run = make_run(strategy + "-2", 2);
  run.plan.strategy = strategy;
  run.plan.global_batch = 128;
  run.replica_bytes = bytes;
  for (int i = 0; i < 5; ++i) {
    const double shift = wobble * (i % 2 == 0 ? 1.0 : -1.0);
    run.rounds.push_back(make_round(std::vector<RankStep>(2, {.forward = (step_ms + shift) * ms}), 100, 128));
  }
  run.losses.assign(20, 2.0);
  return run;
}

measure::Samples samples_of(std::vector<measure::RunSamples> runs) {
  measure::Samples samples;
  samples.runs = std::move(runs);
  samples.complete = true;
  return samples;
}

std::string verdict_of(const measure::Samples& samples) { return summarise(samples).verdict; }

TEST(SideBySide, TakesRunsOfTheSameWorkAlone) {
  auto samples =
      samples_of({make_run("plain", 1, Base::plain), run_of("mirrored", 10, 1), run_of("sharded", 10, 1)});
  EXPECT_THAT(side_by_side(samples), ElementsAre(1, 2));
  samples.runs[1].plan.global_batch = 64;
  EXPECT_THAT(side_by_side(samples), IsEmpty());
  samples.runs[1].plan.global_batch = 128;
  samples.runs[2].plan.strategy = "mirrored";
  EXPECT_THAT(side_by_side(samples), IsEmpty());
  EXPECT_THAT(side_by_side({}), IsEmpty());
}

TEST(BestStrategy, IsTheFastestWhereTheOthersAreSlower) {
  const auto samples = samples_of({run_of("mirrored", 40, 1000), run_of("pipeline", 80, 10)});
  EXPECT_THAT(verdict_of(samples), StartsWith("mirrored fits this model and machine best: the fastest"));
  const double slower = 100.0 * (1.0 - samples.runs[0].rounds[0].seconds / samples.runs[1].rounds[0].seconds);
  EXPECT_THAT(verdict_of(samples), HasSubstr(fmt::format("pipeline is {:.0f} % slower", slower)));
}

TEST(BestStrategy, IsTheOneWithLeastMemoryAmongThoseThatCannotBeToldApart) {
  const auto samples = samples_of({run_of("mirrored", 40, 30'000'000),
                                   run_of("sharded", 40.4, 20'000'000, 0.8), run_of("tensor", 90, 1000)});
  EXPECT_THAT(
      verdict_of(samples),
      HasSubstr("sharded fits this model and machine best: as fast as the fastest, with least memory"));
  EXPECT_THAT(verdict_of(samples), HasSubstr("mirrored"));
  EXPECT_THAT(verdict_of(samples), HasSubstr("cannot be told from the fastest"));
}

TEST(BestStrategy, MemoryThatIsNearlyTheSameDecidesNothing) {
  const auto samples = samples_of({run_of("mirrored", 40, 1000), run_of("sharded", 40.2, 990, 0.5)});
  EXPECT_THAT(verdict_of(samples), StartsWith("mirrored fits"));
}

TEST(BestStrategy, SaysWhichOneTrainsOtherwiseAfterEqualImages) {
  auto samples = samples_of({run_of("mirrored", 40, 1), run_of("parameter-server", 50, 1)});
  EXPECT_THAT(verdict_of(samples), Not(HasSubstr("otherwise")));
  samples.runs[1].losses.assign(40, 2.0);
  for (std::size_t i = 10; i < 20; ++i) samples.runs[1].losses[i] = 2.1;
  EXPECT_THAT(verdict_of(samples), Not(HasSubstr("otherwise")));  // last bits of sums do that after a while
  samples.runs[1].losses[3] = 2.1;
  EXPECT_THAT(
      verdict_of(samples),
      HasSubstr("it trains otherwise than parameter-server (loss 2.1000) from the first steps on, so that "
                "after 20 steps the loss is 2.0000 with mirrored"));
}

TEST(BestStrategy, IsNotChosenWhereReplicasShareCores) {
  auto samples = samples_of({run_of("mirrored", 40, 1), run_of("sharded", 40, 1)});
  for (auto& run : samples.runs) {
    run.plan.simulated = true;
    run.plan.simulated_reason = "2 replicas share 1 core";
  }
  EXPECT_EQ(verdict_of(samples), "no strategy can be chosen here: 2 replicas share 1 core");
}

TEST(BestStrategy, LeavesFailedRunsOut) {
  auto samples = samples_of({run_of("mirrored", 40, 1), run_of("sharded", 80, 1), run_of("tensor", 10, 1)});
  samples.runs[2].failure = "rank 1 was lost";
  EXPECT_THAT(verdict_of(samples), StartsWith("mirrored fits"));
  samples.runs[1].failure = "too";
  EXPECT_THAT(verdict_of(samples), Not(HasSubstr("fits")));
}

TEST(BestStrategy, LeavesRunsOutWhoseRanksHoldDifferentWeights) {
  auto samples = samples_of({run_of("mirrored", 40, 1), run_of("sharded", 80, 1), run_of("tensor", 10, 1)});
  samples.runs[2].weights_agree = false;
  EXPECT_THAT(verdict_of(samples), StartsWith("mirrored fits"));
  EXPECT_THAT(verdict_of(samples), Not(HasSubstr("tensor")));
}

TEST(CommonSteps, AreThoseThatAllTook) {
  auto samples = samples_of({run_of("mirrored", 40, 1), run_of("sharded", 80, 1)});
  samples.runs[0].losses.resize(7);
  EXPECT_EQ(common_steps(samples, {0, 1}), 7U);
  samples.runs[1].losses.clear();
  EXPECT_EQ(common_steps(samples, {0, 1}), 0U);
  EXPECT_EQ(common_steps(samples, {}), 0U);
}

TEST(LossUntil, IsTheMeanOfTheLastTen) {
  measure::RunSamples run;
  for (int i = 1; i <= 30; ++i) run.losses.push_back(i);
  EXPECT_DOUBLE_EQ(loss_until(run, 20), 15.5);
  EXPECT_DOUBLE_EQ(loss_until(run, 4), 2.5);
}

}  // namespace
}  // namespace dtrain::stats
