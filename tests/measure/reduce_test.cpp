#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "stretches.hpp"

namespace dtrain::measure {
namespace {

using ::testing::HasSubstr;

constexpr double tiny = 1e-12;

double sum_of(const RankPhases& p) {
  return p.input + p.forward + p.backward + p.communication + p.update + p.host;
}

TEST(Reduce, GivesPhasesAsMeanSecondsAStep) {
  const auto stretch = make_stretch(1, 4, [](std::size_t, int step) {
    StepShape s{.in_backward = ms / 2, .host = ms / 4};
    s.input = (1 + step) * ms;  // 1, 2, 3, 4: mean 2.5
    return s;
  });
  const RoundSample sample = reduce(stretch);
  ASSERT_EQ(sample.ranks.size(), 1U);
  const RankPhases& p = sample.ranks[0];
  EXPECT_NEAR(p.input, 2.5e-3, tiny);
  EXPECT_NEAR(p.forward, 2e-3, tiny);
  EXPECT_NEAR(p.backward, 3e-3, tiny);
  EXPECT_NEAR(p.communication, 1.5e-3, tiny);  // 1 after the arrival, 0.5 within backward
  EXPECT_NEAR(p.update, 1e-3, tiny);
  EXPECT_NEAR(p.host, 0.25e-3, tiny);
  EXPECT_EQ(sample.steps, 4);
  EXPECT_NEAR(sample.seconds, 4 * 10.25e-3, tiny);
}

TEST(Reduce, PhasesOfEveryRankAddUpToItsMeanStep) {
  Random random(3);
  const auto any = [&](std::int64_t most) { return static_cast<std::int64_t>(random.below(most)); };
  std::vector<StepShape> shapes;
  for (int i = 0; i < 4 * 50; ++i) {
    shapes.push_back({any(ms), any(ms), any(ms), any(ms), any(ms), any(ms), any(ms), 1, true});
  }
  const auto stretch =
      make_stretch(4, 50, [&](std::size_t rank, int step) { return shapes[rank * 50 + step]; });
  const RoundSample sample = reduce(stretch);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const double whole = static_cast<double>(stretch.ranks[rank].back().end_ns - stretch.begin_ns) * 1e-9;
    EXPECT_NEAR(sum_of(sample.ranks[rank]), whole / 50, tiny);
    EXPECT_GE(sample.ranks[rank].host, 0.0);
    EXPECT_LE(sample.ranks[rank].straggler_wait, sample.ranks[rank].communication);
  }
}

TEST(Reduce, ImagesOfDroppedGradientsDoNotCount) {
  auto stretch = make_stretch(2, 3, [](std::size_t, int) { return StepShape{}; });
  const auto all = reduce(stretch).images;
  const int lost = stretch.ranks[1][2].images;
  ASSERT_GT(lost, 0);
  stretch.ranks[1][2].dropped = true;
  EXPECT_EQ(reduce(stretch).images, all - lost);
}

TEST(Staleness, IsCountedByAge) {
  Staleness staleness;
  EXPECT_DOUBLE_EQ(staleness.mean(), 0.0);
  for (const int age : {0, 1, 1, 4}) staleness.add(age);
  EXPECT_THAT(staleness.counts, ::testing::ElementsAre(1, 2, 0, 0, 1));
  EXPECT_DOUBLE_EQ(staleness.mean(), 1.5);
  EXPECT_EQ(staleness.max(), 4);
}

TEST(Reduce, StepsOfTheSlowestRankAddUpToItsSeconds) {
  const auto stretch = make_stretch(3, 20, [](std::size_t rank, int step) {
    return StepShape{.update = ((step + static_cast<int>(rank)) % 3 + 1) * ms};
  });
  const RoundSample sample = reduce(stretch);
  const double sum = std::accumulate(sample.step_seconds.begin(), sample.step_seconds.end(), 0.0);
  EXPECT_EQ(sample.step_seconds.size(), 20U);
  EXPECT_NEAR(sum, sample.seconds, tiny);
  EXPECT_NEAR(sample.seconds, static_cast<double>(stretch.end_ns - stretch.begin_ns) * 1e-9, tiny);
}

TEST(Reduce, CountsImagesFromTheRecords) {
  const auto stretch = make_stretch(4, 3, [](std::size_t rank, int step) {
    return StepShape{.images = step == 2 ? (rank == 0 ? 1 : 0) : static_cast<int>(rank < 2 ? 3 : 2)};
  });
  EXPECT_EQ(reduce(stretch).images, 10 + 10 + 1);
}

TEST(Reduce, TakesTheSlowestRankNotTheFirst) {
  const auto stretch = make_stretch(2, 5, [](std::size_t rank, int) {
    return StepShape{.update = (rank == 1 ? 9 : 1) * ms, .collective = false};
  });
  const RoundSample sample = reduce(stretch);
  EXPECT_NEAR(sample.seconds, 5 * 15e-3, tiny);
  EXPECT_NEAR(sum_of(sample.ranks[0]), 7e-3, tiny);
  EXPECT_NEAR(sum_of(sample.ranks[1]), 15e-3, tiny);
}

TEST(Reduce, TellsWaitingForTheLastFromCommunication) {
  const auto stretch = make_stretch(
      4, 10, [](std::size_t rank, int) { return StepShape{.input = (rank == 2 ? 11 : 1) * ms}; });
  const RoundSample sample = reduce(stretch);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const RankPhases& p = sample.ranks[rank];
    EXPECT_TRUE(p.arrival_measured);
    EXPECT_NEAR(p.straggler_wait, rank == 2 ? 0.0 : 10e-3, tiny);
    EXPECT_NEAR(p.communication, rank == 2 ? 1e-3 : 11e-3, tiny);
    EXPECT_DOUBLE_EQ(p.last_arrivals, rank == 2 ? 1.0 : 0.0);
    EXPECT_NEAR(p.lateness, rank == 2 ? 10e-3 : 0.0, tiny);
  }
}

TEST(Reduce, MeasuresTwoRanksAgainstEachOther) {
  const auto stretch = make_stretch(
      2, 10, [](std::size_t rank, int) { return StepShape{.forward = (rank == 1 ? 12 : 2) * ms}; });
  const RoundSample sample = reduce(stretch);
  EXPECT_NEAR(sample.ranks[0].lateness, -10e-3, tiny);
  EXPECT_NEAR(sample.ranks[1].lateness, 10e-3, tiny);
}

// Rank 1 arrives `later` than rank 0, which leaves a millisecond after its own arrival.
StretchRecord exchange_of_two(std::int64_t later) {
  StretchRecord stretch = make_stretch(2, 1, [](std::size_t, int) { return StepShape{}; });
  StepRecord& late = stretch.ranks[1][0];
  late.arrival_ns += later;
  late.communicated_ns = late.arrival_ns + ms;
  late.end_ns = late.communicated_ns + ms;
  return stretch;
}

TEST(Reduce, WaitIsNeverLongerThanTheCommunicationItIsPartOf) {
  // Clocks of two hosts that differ a little: rank 0 seems to leave before rank 1 came.
  const RoundSample sample = reduce(exchange_of_two(3 * ms / 2));
  EXPECT_NEAR(sample.ranks[0].straggler_wait, 1e-3, tiny);
  EXPECT_NEAR(sample.ranks[0].communication, 1e-3, tiny);
}

TEST(Reduce, NobodyWaitsForOneThatComesAfterItWentOn) {
  const RoundSample sample = reduce(exchange_of_two(5 * ms));  // as in an asynchronous exchange
  EXPECT_EQ(sample.ranks[0].straggler_wait, 0.0);
  EXPECT_NEAR(sample.ranks[0].communication, 1e-3, tiny);
}

TEST(Reduce, SaysNothingOfArrivalsThatWereNotStamped) {
  const auto none =
      reduce(make_stretch(2, 4, [](std::size_t, int) { return StepShape{.collective = false}; }));
  for (const auto& rank : none.ranks) {
    EXPECT_FALSE(rank.arrival_measured);
    EXPECT_EQ(rank.straggler_wait, 0.0);
    EXPECT_EQ(rank.communication, 0.0);
    EXPECT_EQ(rank.last_arrivals, 0.0);
  }
  // One rank stamps, the other does not: who was last cannot be known.
  auto partial = make_stretch(2, 4, [](std::size_t, int) { return StepShape{}; });
  partial.ranks[1][2].arrival_ns = 0;
  EXPECT_FALSE(reduce(partial).ranks[0].arrival_measured);
}

TEST(Reduce, AveragesArrivalsOverStepsThatHaveACollective) {
  const auto stretch = make_stretch(2, 8, [](std::size_t rank, int step) {
    return StepShape{.input = (rank == 1 ? 5 : 1) * ms, .collective = step % 4 == 3};
  });
  const RoundSample sample = reduce(stretch);
  EXPECT_TRUE(sample.ranks[1].arrival_measured);
  EXPECT_DOUBLE_EQ(sample.ranks[1].last_arrivals, 1.0);
  EXPECT_NEAR(sample.ranks[1].lateness, 4e-3, tiny);  // a step; four steps' delay at each meeting
  EXPECT_NEAR(sample.ranks[0].straggler_wait, 4e-3, tiny);
}

// The end of a collective reaches rank 1 later than rank 0, in every step. It then comes to the next one
// later too, through no fault of its own.
TEST(Reduce, CallsNobodyLateWhoWasLetGoLater) {
  auto stretch = make_stretch(2, 50, [](std::size_t, int) { return StepShape{.communication = 2 * ms}; });
  for (StepRecord& r : stretch.ranks[1]) {
    r.begin_ns += 1 * ms;
    r.arrival_ns += 1 * ms;
    r.communicated_ns += 1 * ms;
    r.end_ns += 1 * ms;
  }
  const RoundSample sample = reduce(stretch);
  EXPECT_DOUBLE_EQ(sample.ranks[1].last_arrivals, 1.0);
  EXPECT_NEAR(sample.ranks[0].straggler_wait, 1e-3, tiny);
  EXPECT_NEAR(sample.ranks[1].lateness, 1e-3 / 50, tiny);  // of the first step
  EXPECT_NEAR(sample.ranks[0].lateness, -1e-3 / 50, tiny);
}

TEST(Reduce, HoldsOwnWaysAgainstEachOtherWhereNobodyWaits) {
  // Rank 1 falls behind by 10 ms in every step, and rank 0 goes on.
  auto stretch = make_stretch(2, 20, [](std::size_t, int) { return StepShape{}; });
  std::int64_t behind = 0;
  for (StepRecord& r : stretch.ranks[1]) {
    r.begin_ns += behind;
    behind += 10 * ms;
    r.input_ns += 10 * ms;
    r.arrival_ns += behind;
    r.communicated_ns += behind;
    r.end_ns += behind;
  }
  const RoundSample sample = reduce(stretch);
  EXPECT_DOUBLE_EQ(sample.ranks[1].last_arrivals, 1.0);
  EXPECT_NEAR(sample.ranks[1].lateness, 10e-3, tiny);
  EXPECT_NEAR(sample.ranks[0].lateness, -10e-3, tiny);
}

TEST(Reduce, ALoneRankIsNeverLast) {
  const auto sample = reduce(make_stretch(1, 4, [](std::size_t, int) { return StepShape{}; }));
  EXPECT_TRUE(sample.ranks[0].arrival_measured);
  EXPECT_EQ(sample.ranks[0].last_arrivals, 0.0);
  EXPECT_EQ(sample.ranks[0].straggler_wait, 0.0);
  EXPECT_EQ(sample.ranks[0].lateness, 0.0);
}

TEST(Reduce, ThinsLongStretchesEvenly) {
  const int steps = static_cast<int>(max_kept_steps) * 3;
  const auto sample =
      reduce(make_stretch(1, steps, [](std::size_t, int step) { return StepShape{.update = step + 1}; }));
  ASSERT_EQ(sample.step_seconds.size(), max_kept_steps);
  EXPECT_EQ(sample.steps, steps);
  for (std::size_t i = 1; i < sample.step_seconds.size(); ++i) {
    EXPECT_NEAR(sample.step_seconds[i] - sample.step_seconds[i - 1], 3e-9, 1e-12);
  }
}

TEST(Reduce, CountsARankThatWasOffBeforeTheOthersFromItsOwnStart) {
  auto stretch = make_stretch(2, 2, [](std::size_t, int) { return StepShape{.collective = false}; });
  stretch.ranks[1][0].begin_ns -= 2 * ms;
  EXPECT_NEAR(reduce(stretch).seconds, 2 * 7e-3 + 2e-3, tiny);
}

std::string refusal(const StretchRecord& stretch) {
  try {
    reduce(stretch);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::run);
    return error.what();
  }
  return "";
}

TEST(Reduce, RefusesStampsThatCannotBeTrue) {
  const auto good = make_stretch(2, 3, [](std::size_t, int) { return StepShape{}; });
  EXPECT_EQ(refusal(good), "");
  const auto spoilt = [&](const std::function<void(StepRecord&)>& spoil) {
    StretchRecord stretch = good;
    spoil(stretch.ranks[1][2]);
    return refusal(stretch);
  };
  EXPECT_THAT(spoilt([](auto& r) { r.end_ns = r.begin_ns - 1; }), HasSubstr("rank 1, step 2"));
  EXPECT_THAT(spoilt([](auto& r) { r.begin_ns -= ms; }), HasSubstr("before the step before"));
  EXPECT_THAT(spoilt([](auto& r) { r.communicated_ns = r.arrival_ns - 1; }), HasSubstr("out of order"));
  EXPECT_THAT(spoilt([](auto& r) { r.communicated_ns = 0; }), HasSubstr("out of order"));
  EXPECT_THAT(spoilt([](auto& r) { r.forward_ns = -1; }), HasSubstr("negative"));
  EXPECT_THAT(spoilt([](auto& r) { r.backward_ns += 10 * ms; }), HasSubstr("more than the step"));
  EXPECT_THAT(spoilt([](auto& r) { r.images = -1; }), HasSubstr("images"));
}

TEST(Reduce, RefusesRanksThatTookDifferentNumbersOfSteps) {
  auto stretch = make_stretch(2, 3, [](std::size_t, int) { return StepShape{}; });
  stretch.ranks[1].pop_back();
  EXPECT_THAT(refusal(stretch), HasSubstr("rank 1"));
  stretch.ranks[0].clear();
  stretch.ranks[1].clear();
  EXPECT_NE(refusal(stretch), "");
  EXPECT_NE(refusal(StretchRecord{}), "");
}

}  // namespace
}  // namespace dtrain::measure
