#include "backend/arena.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"

namespace {

using namespace dtrain::backend;

void expect_valid(const std::vector<Lifetime>& lifetimes, const ArenaPlan& plan) {
  for (std::size_t a = 0; a < lifetimes.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % 64, 0U);
    EXPECT_LE(plan.offsets[a] + lifetimes[a].bytes, plan.bytes);
    for (std::size_t b = 0; b < a; ++b) {
      const bool together =
          lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
      const bool apart = plan.offsets[a] + lifetimes[a].bytes <= plan.offsets[b] ||
                         plan.offsets[b] + lifetimes[b].bytes <= plan.offsets[a];
      EXPECT_TRUE(!together || apart) << a << " and " << b;
    }
  }
}

TEST(Arena, BuffersOfDifferentTimesShareMemory) {
  const std::vector<Lifetime> lifetimes = {{1000, 0, 1}, {1000, 2, 3}, {500, 1, 2}};
  const ArenaPlan plan = plan_arena(lifetimes);
  expect_valid(lifetimes, plan);
  EXPECT_EQ(plan.bytes, 1024U + 512U);
}

TEST(Arena, NothingOverlapsInRandomPlans) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    dtrain::Random random(seed);
    std::vector<Lifetime> lifetimes;
    std::size_t total = 0;
    for (int i = 0; i < 30; ++i) {
      const int first = static_cast<int>(random.below(20));
      lifetimes.push_back({random.below(5000), first, first + static_cast<int>(random.below(8))});
      total += (lifetimes.back().bytes + 63) / 64 * 64;
    }
    const ArenaPlan plan = plan_arena(lifetimes);
    expect_valid(lifetimes, plan);
    EXPECT_LT(plan.bytes, total);
  }
}

TEST(Arena, EmptyPlanTakesNothing) { EXPECT_EQ(plan_arena({}).bytes, 0U); }

}  // namespace
