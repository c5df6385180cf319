#include "kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "random_values.hpp"

namespace {

using namespace dtrain::kernels;

TEST(Relu, KeepsPositivesAndNotANumber) {
  const std::vector<float> x = {-1.0F, 0.0F, 2.0F, std::nanf("")};
  std::vector<float> y(4);
  relu(x, y);
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_EQ(y[2], 2.0F);
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST(ReluBackward, PassesWhereTheOutputIsPositive) {
  const std::vector<float> y = {0.0F, 1.0F, 0.0F, 3.0F};
  std::vector<float> dy = {5.0F, 6.0F, 7.0F, 8.0F};
  relu_backward(y, dy);
  EXPECT_EQ(dy, (std::vector<float>{0.0F, 6.0F, 0.0F, 8.0F}));
}

TEST(Sums, AddAndAccumulate) {
  const auto a = random_values(1003, 1);
  const auto b = random_values(1003, 2);
  std::vector<float> sum(1003);
  add(a, b, sum);
  auto into = b;
  accumulate(a, into);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], a[i] + b[i]);
  EXPECT_EQ(into, sum);
}

float rounded(float x) {
  float y = 0.0F;
  round_to_bf16({&x, 1}, {&y, 1});
  return y;
}

TEST(RoundToBf16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(rounded(1.0F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1p-8F), 1.0F);                // half way: even below
  EXPECT_EQ(rounded(1.0F + 3 * 0x1p-8F), 1.0F + 0x1p-6F);  // half way: even above
  EXPECT_EQ(rounded(1.0F + 0x1p-8F + 0x1p-20F), 1.0F + 0x1p-7F);
  EXPECT_EQ(rounded(-3.14159F), -3.140625F);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded(-std::numeric_limits<float>::infinity()), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(0x7f800001U))));
}

}  // namespace
