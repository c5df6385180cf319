#include "kernels/max_pool.hpp"

#include <gtest/gtest.h>

#include "random_values.hpp"

namespace {

using namespace dtrain::kernels;

class EachShape : public testing::TestWithParam<PoolShape> {};

TEST_P(EachShape, FastIsTheReference) {
  const PoolShape shape = GetParam();
  const std::size_t in = shape.outer * shape.height * shape.width * shape.inner;
  const std::size_t out = shape.outer * shape.out_height() * shape.out_width() * shape.inner;
  auto x = random_values(in, 5);
  for (std::size_t i = 0; i < in; i += 3) x[i] = 0.5F;  // ties
  for (const bool relu : {false, true}) {
    std::vector<float> y(out), y_reference(out), dx(in, 9.0F), dx_reference(in);
    std::vector<std::uint8_t> winner(out), winner_reference(out);
    max_pool_forward(shape, relu, x.data(), y.data(), winner.data());
    max_pool_forward_reference(shape, relu, x.data(), y_reference.data(), winner_reference.data());
    EXPECT_EQ(y, y_reference);
    EXPECT_EQ(winner, winner_reference);

    const auto dy = random_values(out, 6);
    max_pool_backward(shape, dy.data(), winner.data(), dx.data());
    max_pool_backward_reference(shape, dy.data(), winner.data(), dx_reference.data());
    EXPECT_EQ(dx, dx_reference);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EachShape,
                         testing::Values(PoolShape{1, 2, 2, 1, 2}, PoolShape{3, 13, 13, 8, 2},
                                         PoolShape{2, 30, 30, 16, 2}, PoolShape{2, 5, 7, 3, 2},
                                         PoolShape{2, 4, 4, 8, 4}, PoolShape{1, 9, 8, 5, 3}));

TEST(MaxPool, ReluWithoutAPositiveHasNoWinner) {
  const std::vector<float> x = {-1.0F, -2.0F, -3.0F, 0.0F};
  float y = 7.0F;
  std::uint8_t winner = 0;
  max_pool_forward({1, 2, 2, 1, 2}, true, x.data(), &y, &winner);
  EXPECT_EQ(y, 0.0F);
  EXPECT_EQ(winner, pool_nothing);
  const float dy = 1.0F;
  std::vector<float> dx(4, 5.0F);
  max_pool_backward({1, 2, 2, 1, 2}, &dy, &winner, dx.data());
  EXPECT_EQ(dx, std::vector<float>(4, 0.0F));
}

}  // namespace
