#include "compare/schedule.hpp"

#include <gmock/gmock.h>

namespace dtrain::compare {
namespace {

using testing::ElementsAre;

TEST(Schedule, BothOrdersTakeTurns) {
  int news = 0;
  for (int pair = 1; pair <= 8; ++pair) news += new_goes_first(pair) ? 1 : 0;
  EXPECT_EQ(news, 4);
  EXPECT_NE(new_goes_first(1), new_goes_first(2));  // base new, new base
}

TEST(Schedule, LooksAreFewAndGrow) {
  EXPECT_THAT(looks(50), ElementsAre(8, 12, 18, 28, 50));
  EXPECT_THAT(looks(30), ElementsAre(8, 12, 18, 30));
  EXPECT_THAT(looks(8), ElementsAre(8));
  for (int pairs = 0; pairs < 200; ++pairs) {
    const auto at = looks(pairs);
    EXPECT_EQ(at.back(), std::max(pairs, least_pairs));
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      EXPECT_LT(at[i], at[i + 1]);
      EXPECT_EQ(at[i] % 2, 0);
    }
    EXPECT_LE(at.size(), 10U);
  }
}

TEST(Schedule, NoBudgetStillMeansEnoughPairsToSaySomething) {
  EXPECT_THAT(looks(-3), ElementsAre(least_pairs));
}

}  // namespace
}  // namespace dtrain::compare
