#include "tune/schedule.hpp"

#include <gtest/gtest.h>

namespace dtrain::tune {
namespace {

TEST(Stretches, CountEveryRungWithTheDefault) {
  // 5 x 2, then 3 x 4, then one is left for 3 pairs.
  EXPECT_EQ(halving_stretches({.candidates = 4, .first_rounds = 2, .pairs = 3}), 10 + 12);
  EXPECT_EQ(all_stretches({.candidates = 4, .first_rounds = 2, .pairs = 3}), 10 + 12 + 6);
  // 6 x 1, 4 x 2, 3 x 4.
  EXPECT_EQ(halving_stretches({.candidates = 5, .first_rounds = 1, .pairs = 0}), 6 + 8 + 12);
  EXPECT_EQ(halving_stretches({.candidates = 1, .first_rounds = 2, .pairs = 0}), 0);
}

TEST(PlanSearch, RefusesLessThanTheSmallest) {
  for (const int available : {1, 2, 4, 30}) {
    const int least = least_stretches(available);
    EXPECT_FALSE(plan_search(available, least - 1)) << available;
    const auto smallest = plan_search(available, least);
    ASSERT_TRUE(smallest) << available;
    EXPECT_EQ(smallest->candidates, std::min(available, 4));
    EXPECT_EQ(all_stretches(*smallest), least);
  }
}

TEST(PlanSearch, NeverTakesMoreThanItMay) {
  for (const int available : {1, 3, 7, 28, 139}) {
    for (int stretches = least_stretches(available); stretches < 3000; stretches += 37) {
      const auto schedule = plan_search(available, stretches);
      ASSERT_TRUE(schedule);
      EXPECT_LE(all_stretches(*schedule), stretches);
      EXPECT_LE(schedule->candidates, available);
      EXPECT_GE(schedule->pairs, 10);
    }
  }
}

TEST(PlanSearch, TakesMoreCandidatesFirstAndThenMoreRounds) {
  const auto few = plan_search(28, 100);
  ASSERT_TRUE(few);
  EXPECT_GT(few->candidates, 4);
  EXPECT_LT(few->candidates, 28);
  EXPECT_EQ(few->first_rounds, 2);
  const auto many = plan_search(28, 2000);
  ASSERT_TRUE(many);
  EXPECT_EQ(many->candidates, 28);
  EXPECT_GT(many->first_rounds, 2);
  EXPECT_EQ(many->pairs, 40);
}

}  // namespace
}  // namespace dtrain::tune
