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

std::vector<int> pairs_of(const std::vector<Look>& looks) {
  std::vector<int> pairs;
  for (const Look& look : looks) pairs.push_back(look.pairs);
  return pairs;
}

TEST(Schedule, LooksAreFewAndGrow) {
  EXPECT_THAT(pairs_of(looks(50)), ElementsAre(8, 16, 32, 50));
  EXPECT_THAT(pairs_of(looks(40)), ElementsAre(8, 16, 40));
  EXPECT_THAT(pairs_of(looks(8)), ElementsAre(8));
  for (int pairs = 0; pairs < 200; ++pairs) {
    const auto at = looks(pairs);
    EXPECT_EQ(at.back().pairs, std::max(pairs, least_pairs));
    double shares = 0.0;
    for (const Look& look : at) shares += look.error_share;
    EXPECT_NEAR(shares, 1.0, 1e-12);
    for (std::size_t i = 0; i + 1 < at.size(); ++i) EXPECT_LT(at[i].pairs, at[i + 1].pairs);
    EXPECT_LE(at.size(), 6U);
  }
}

TEST(Schedule, NoBudgetStillMeansEnoughPairsToSaySomething) {
  EXPECT_THAT(pairs_of(looks(-3)), ElementsAre(least_pairs));
  EXPECT_EQ(looks(-3).front().error_share, 1.0);
}

}  // namespace
}  // namespace dtrain::compare
