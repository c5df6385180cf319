#include "stats/budget.hpp"

#include <gtest/gtest.h>

#include "synthetic.hpp"

namespace dtrain::stats {
namespace {

constexpr double tiny = 1e-12;

LossBudget budget_of(const measure::Samples& samples) {
  const auto budget = loss_budget(samples.runs[1], samples.runs[0]);
  if (!budget) throw std::runtime_error("no budget");
  return *budget;
}

TEST(LossBudget, SplitsTheGapUnderWeakScaling) {
  // One replica: 32 ms. Four: slower by 4 in computation, 2 in input, 3 of communication, 1 in update, and
  // rank 3 late by 8, which the other three wait for.
  const RankStep slow{
      .input = 2 * ms, .forward = 12 * ms, .backward = 22 * ms, .communication = 3 * ms, .update = 3 * ms};
  RankStep late = slow;
  late.backward += 8 * ms;
  const auto budget = budget_of(make_pair({}, 64, {slow, slow, slow, late}, 256));
  EXPECT_NEAR(budget.ideal_seconds, 32 * ms, tiny);
  EXPECT_NEAR(budget.measured_seconds, 50 * ms, tiny);
  EXPECT_NEAR(budget.useful_percent, 64.0, 1e-9);
  EXPECT_NEAR(part(budget, "input"), 2 * ms, tiny);
  EXPECT_NEAR(part(budget, "slower computation"), 6 * ms, tiny);  // 4, and a quarter of 8
  EXPECT_NEAR(part(budget, "stragglers"), 6 * ms, tiny);          // three quarters of 8
  EXPECT_NEAR(part(budget, "communication"), 3 * ms, tiny);
  EXPECT_NEAR(part(budget, "update and host"), 1 * ms, tiny);
  EXPECT_NEAR(part(budget, "residual"), 0.0, tiny);
  EXPECT_NEAR(percent_sum(budget), 100.0, 1e-9);
  EXPECT_TRUE(budget.arrivals_measured);
  for (const auto& p : budget.parts)
    EXPECT_NEAR(p.percent, 100.0 * p.seconds / budget.measured_seconds, 1e-9);
}

TEST(LossBudget, ScalesTheIdealUnderStrongScaling) {
  // A quarter of the images in a little over a quarter of the time; the update does not shrink.
  const RankStep quarter{.forward = 3 * ms, .backward = 5 * ms, .communication = 1 * ms, .update = 2 * ms};
  const auto budget = budget_of(make_pair({}, 64, {quarter, quarter, quarter, quarter}, 64));
  EXPECT_NEAR(budget.ideal_seconds, 8 * ms, tiny);
  EXPECT_NEAR(budget.measured_seconds, 11 * ms, tiny);
  EXPECT_NEAR(part(budget, "slower computation"), 0.5 * ms, tiny);
  EXPECT_NEAR(part(budget, "communication"), 1 * ms, tiny);
  EXPECT_NEAR(part(budget, "update and host"), 1.5 * ms, tiny);
  EXPECT_NEAR(percent_sum(budget), 100.0, 1e-9);
}

TEST(LossBudget, OfAFusedStepNamesTheProgramAsAWhole) {
  auto samples = make_pair({}, 64, {RankStep{}, RankStep{}}, 128);
  for (auto& run : samples.runs) {
    for (auto& round : run.rounds) {
      for (auto& rank : round.ranks) {
        rank.fused = rank.forward + rank.backward + rank.communication + rank.update;
        rank.forward = rank.backward = rank.communication = rank.update = rank.straggler_wait = 0.0;
        rank.arrival_measured = false;
      }
    }
  }
  const auto budget = budget_of(samples);
  EXPECT_TRUE(budget.fused);
  EXPECT_EQ(budget.parts[1].name, "slower program");
  EXPECT_NEAR(percent_sum(budget), 100.0, 1e-9);
}

TEST(LossBudget, KeepsNegativeParts) {
  const RankStep faster{.forward = 8 * ms, .backward = 18 * ms, .communication = 1 * ms};
  const auto budget = budget_of(make_pair({}, 64, {faster, faster}, 128));
  EXPECT_NEAR(part(budget, "slower computation"), -4 * ms, tiny);
  EXPECT_GT(budget.useful_percent, 100.0);
  EXPECT_NEAR(percent_sum(budget), 100.0, 1e-9);
}

TEST(LossBudget, TakesUnevenImagesFromTheCounts) {
  // 10 images dealt to 4: one replica takes 10, four take 3, 3, 2, 2.
  const RankStep three{.forward = 3 * ms, .backward = 6 * ms, .update = 0.0};
  const RankStep two{.forward = 2 * ms, .backward = 4 * ms, .update = 0.0};
  const auto samples =
      make_pair({.forward = 10 * ms, .backward = 20 * ms, .update = 0.0}, 10, {three, three, two, two}, 10);
  const auto budget = budget_of(samples);
  EXPECT_NEAR(budget.ideal_seconds, 7.5 * ms, tiny);
  EXPECT_NEAR(part(budget, "stragglers"), 1.5 * ms, tiny);
  EXPECT_NEAR(part(budget, "slower computation"), 0.0, tiny);
  EXPECT_NEAR(budget.useful_percent, 100.0 * summarise(samples).runs[1].efficiency->median, 1e-9);
}

TEST(LossBudget, ShowsWhatNoPhaseAccountsFor) {
  auto samples = make_pair({}, 64, {RankStep{}, RankStep{}}, 128);
  for (auto& round : samples.runs[1].rounds) round.seconds *= 1.25;  // ranks idle at the end
  const auto budget = budget_of(samples);
  EXPECT_NEAR(part(budget, "residual"), 8 * ms, tiny);
  EXPECT_NEAR(percent_sum(budget), 100.0, 1e-9);
}

TEST(LossBudget, DoesNotChargeTheBasesOwnGap) {
  auto samples = make_pair({}, 64, {RankStep{}, RankStep{}}, 128);
  for (auto& run : samples.runs) {
    for (auto& round : run.rounds) round.seconds += 100 * 4 * ms;
  }
  const auto budget = budget_of(samples);
  EXPECT_NEAR(part(budget, "residual"), 0.0, tiny);
  EXPECT_NEAR(budget.useful_percent, 100.0, 1e-9);
}

TEST(LossBudget, AddsUpToAHundredWhateverTheSamples) {
  Random random(11);
  const auto any = [&] { return 20 * ms * random.uniform(); };
  for (int trial = 0; trial < 60; ++trial) {
    const std::size_t n = 2 + random.below(6);
    const int rounds = 1 + static_cast<int>(random.below(6));
    measure::Samples samples = make_pair({}, 64, std::vector<RankStep>(n), 64, 0);
    for (int round = 0; round < rounds; ++round) {
      std::vector<RankStep> ranks;
      for (std::size_t i = 0; i < n; ++i) ranks.push_back({any(), any(), any(), any(), any(), any()});
      const int steps = 1 + static_cast<int>(random.below(50));
      const int images = 1 + static_cast<int>(random.below(300));
      samples.runs[0].rounds.push_back(make_round({{any(), any(), any(), any(), any(), any()}}, steps, 64));
      samples.runs[1].rounds.push_back(make_round(ranks, 1 + steps / 2, images));
    }
    const Summary summary = summarise(samples);
    const auto& run = summary.runs[1];
    ASSERT_TRUE(run.budget);
    EXPECT_NEAR(percent_sum(*run.budget), 100.0, 1e-9);
    if (rounds % 2 == 0) continue;
    EXPECT_NEAR(run.budget->useful_percent, 100.0 * run.efficiency->median, 1e-9);
  }
}

TEST(LossBudget, IsThatOfTheRoundWithTheMedianEfficiency) {
  auto samples = make_pair({}, 64, {RankStep{}, RankStep{}}, 128, 3);
  const auto with_communication = [](double seconds) {
    const RankStep step{.communication = seconds};
    return make_round({step, step}, 100, 128);
  };
  samples.runs[1].rounds = {with_communication(1 * ms), with_communication(400 * ms),
                            with_communication(4 * ms)};
  EXPECT_NEAR(part(budget_of(samples), "communication"), 4 * ms, tiny);
  samples.runs[0].rounds.push_back(samples.runs[0].rounds[0]);
  samples.runs[1].rounds.push_back(with_communication(6 * ms));  // 1, 4, 6, 400: the two in the middle
  EXPECT_NEAR(part(budget_of(samples), "communication"), 5 * ms, tiny);
}

TEST(LossBudget, PairsOnlyRoundsThatBothHave) {
  auto samples = make_pair({}, 64, {RankStep{}, RankStep{}}, 128, 5);
  samples.runs[1].rounds.resize(2);
  samples.runs[0].rounds[0].ranks.clear();
  EXPECT_NEAR(budget_of(samples).useful_percent, 100.0, 1e-9);
  samples.runs[1].rounds.resize(1);
  EXPECT_FALSE(loss_budget(samples.runs[1], samples.runs[0]));
}

TEST(LossBudget, NeedsPhasesOfRanks) {
  auto samples = make_pair({}, 64, {RankStep{}, RankStep{}}, 128, 2);
  for (auto& round : samples.runs[1].rounds) round.ranks.clear();  // as a peer's result has it
  EXPECT_FALSE(loss_budget(samples.runs[1], samples.runs[0]));
  EXPECT_FALSE(loss_budget(make_run("x", 2), samples.runs[0]));
}

TEST(LossBudget, SaysWhenArrivalsWereNotMeasured) {
  auto samples = make_pair({}, 64, {RankStep{}, RankStep{.forward = 20 * ms}}, 128);
  for (auto& round : samples.runs[1].rounds) {
    for (auto& rank : round.ranks) {
      rank.arrival_measured = false;
      rank.straggler_wait = 0.0;
    }
  }
  const auto budget = budget_of(samples);
  EXPECT_FALSE(budget.arrivals_measured);
  EXPECT_EQ(part(budget, "stragglers"), 0.0);
  EXPECT_NEAR(part(budget, "communication"), 5 * ms, tiny);  // the wait is in it
  EXPECT_NEAR(percent_sum(budget), 100.0, 1e-9);
}

}  // namespace
}  // namespace dtrain::stats
