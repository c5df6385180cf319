#include "predict/law.hpp"

#include <gtest/gtest.h>

namespace dtrain::predict {
namespace {

void expect_cost(const LevelLaw& law, int members, double messages, double bytes) {
  const LevelCost cost = law.cost(members, 1000.0);
  EXPECT_DOUBLE_EQ(cost.messages, messages) << law.name << " of " << members;
  EXPECT_DOUBLE_EQ(cost.bytes, bytes) << law.name << " of " << members;
}

TEST(Law, CountsMessagesAndBytes) {
  expect_cost(ring(), 2, 2, 1000);
  expect_cost(ring(), 5, 8, 1600);
  expect_cost(tree(), 2, 2, 2000);
  expect_cost(tree(), 8, 6, 6000);
  expect_cost(tree(), 5, 6, 6000);
  expect_cost(halving_doubling(), 8, 6, 1750);
  expect_cost(halving_doubling(), 6, 6, 2000);
  expect_cost(shared_memory(), 4, 1, 2000);
  expect_cost(sum_by_one(), 4, 1, 8000);
}

TEST(Law, OfGlooDependsOnBytes) {
  const LevelLaw gloo = as_gloo_chooses();
  EXPECT_DOUBLE_EQ(gloo.cost(8, 4'000'000.0).messages, 14.0);
  EXPECT_DOUBLE_EQ(gloo.cost(8, 1000.0).messages, 6.0);
}

TEST(Law, HasALevelWithinWorkersAndOneAmongThem) {
  const Law law{shared_memory(), ring()};
  const Columns both = law.columns({.replicas = 8, .workers = 2, .hosts = 2}, 1000.0, 0.5, 2.0);
  EXPECT_EQ(both, (Columns{2, 500, 2, 4000}));
  EXPECT_EQ(law.columns({.replicas = 4, .workers = 4, .hosts = 4}, 1000.0, 1.0, 1.0),
            (Columns{6, 1500, 0, 0}));
  EXPECT_EQ(law.columns({.replicas = 4, .workers = 1, .hosts = 1}, 1000.0, 1.0, 1.0),
            (Columns{0, 0, 1, 2000}));
  EXPECT_EQ(law.columns({.replicas = 1, .workers = 1, .hosts = 1}, 1000.0, 1.0, 1.0), Columns{});
  EXPECT_EQ(law.name(true, true), "hierarchical: shared memory within a worker, ring among workers");
}

}  // namespace
}  // namespace dtrain::predict
