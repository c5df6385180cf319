#include "datasets/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtrain::datasets {
namespace {

std::vector<std::uint32_t> file_order(std::size_t size) {
  std::vector<std::uint32_t> out(size);
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

class EveryBuffer : public testing::TestWithParam<int> {};

TEST_P(EveryBuffer, OrderHoldsEveryImageOnce) {
  for (const std::size_t size : {1, 2, 7, 100, 1000}) {
    auto order = epoch_order(size, 3, 5, GetParam());
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, file_order(size));
  }
}

// Image i enters the buffer when i - buffer + 1 images are out, so it cannot come sooner.
TEST_P(EveryBuffer, NoImageComesBeforeTheBufferCouldHoldIt) {
  const auto order = epoch_order(500, 1, 0, GetParam());
  for (std::size_t position = 0; position < order.size(); ++position) {
    EXPECT_LT(order[position], position + std::max(GetParam(), 1));
  }
}

TEST_P(EveryBuffer, SameArgumentsGiveTheSameOrder) {
  EXPECT_EQ(epoch_order(300, 9, 2, GetParam()), epoch_order(300, 9, 2, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Order, EveryBuffer, testing::Values(0, 1, 2, 10, 99, 500, 10000));

TEST(Order, BuffersOfNoneAndOneKeepFileOrder) {
  EXPECT_EQ(epoch_order(50, 4, 1, 0), file_order(50));
  EXPECT_EQ(epoch_order(50, 4, 1, 1), file_order(50));
}

TEST(Order, EmptySet) { EXPECT_TRUE(epoch_order(0, 1, 1, 100).empty()); }

TEST(Order, SeedAndEpochEachChangeIt) {
  const auto order = epoch_order(1000, 1, 1, 1000);
  EXPECT_NE(order, epoch_order(1000, 2, 1, 1000));
  EXPECT_NE(order, epoch_order(1000, 1, 2, 1000));
  EXPECT_NE(epoch_order(1000, 0, 1, 1000), epoch_order(1000, 1, 0, 1000));
}

TEST(Order, BuffersBeyondTheSizeAreAllTheFullShuffle) {
  EXPECT_EQ(epoch_order(100, 1, 1, 100), epoch_order(100, 1, 1, 1 << 30));
}

// Where a full shuffle puts image 0 is even over positions: chi-squared with 9 degrees of freedom, limit at
// 1e-6.
TEST(Order, FullShuffleIsEven) {
  constexpr int epochs = 5000;
  std::vector<double> counts(10);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order = epoch_order(10, 7, epoch, 10);
    counts[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0U) - order.begin())] += 1;
  }
  double chi_squared = 0.0;
  for (const double count : counts) chi_squared += std::pow(count - epochs / 10.0, 2) / (epochs / 10.0);
  EXPECT_LT(chi_squared, 45.1);
}

// A draw leaves image 0 of a buffer of B in place with probability 1 - 1/B, so its position is geometric:
// mean B - 1.
TEST(Order, BufferDrawsAsTfDataDoes) {
  constexpr int epochs = 4000;
  constexpr int buffer = 10;
  double sum = 0.0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order = epoch_order(1000, 7, epoch, buffer);
    sum += static_cast<double>(std::find(order.begin(), order.end(), 0U) - order.begin());
  }
  const double deviation_of_mean = std::sqrt(buffer * (buffer - 1.0) / epochs);
  EXPECT_NEAR(sum / epochs, buffer - 1.0, 5 * deviation_of_mean);
}

}  // namespace
}  // namespace dtrain::datasets
