#include "tune/space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace dtrain::tune {
namespace {

const auto all = [](const Choices&) { return true; };

std::size_t changes(const Choices& choices) {
  return choices.size() - static_cast<std::size_t>(std::ranges::count(choices, 0));
}

TEST(Arrange, HoldsEveryCombinationOnceTheDefaultFirst) {
  const auto candidates = arrange({3, 2, 4}, 7, all);
  EXPECT_EQ(candidates.size(), 24u);
  EXPECT_EQ(candidates.front(), (Choices{0, 0, 0}));
  EXPECT_EQ(std::set<Choices>(candidates.begin(), candidates.end()).size(), 24u);
}

TEST(Arrange, PutsThoseThatChangeOneThingFirst) {
  const auto candidates = arrange({3, 2, 4}, 7, all);
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    EXPECT_EQ(changes(candidates[i]) == 1, i <= 2 + 1 + 3) << i;
  }
}

TEST(Arrange, OrdersBySeed) {
  EXPECT_EQ(arrange({3, 4, 4}, 1, all), arrange({3, 4, 4}, 1, all));
  EXPECT_NE(arrange({3, 4, 4}, 1, all), arrange({3, 4, 4}, 2, all));
}

TEST(Arrange, LeavesOutWhatIsNotAllowed) {
  const auto candidates = arrange({2, 2}, 0, [](const Choices& c) { return c[0] == 1 || c[1] == 0; });
  EXPECT_EQ(std::set<Choices>(candidates.begin(), candidates.end()),
            (std::set<Choices>{{0, 0}, {1, 0}, {1, 1}}));
  EXPECT_EQ(arrange({1, 1}, 0, all).size(), 1u);
}

}  // namespace
}  // namespace dtrain::tune
