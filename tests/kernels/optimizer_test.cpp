#include "kernels/optimizer.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "random_values.hpp"

namespace {

using namespace dtrain::kernels;

class EachOptimizer : public testing::TestWithParam<std::string> {};

TEST_P(EachOptimizer, FastIsTheReferenceOverManySteps) {
  const Optimizer& optimizer = optimizers().at(GetParam()).value;
  for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{1003}}) {
    auto fast = random_values(count, 1);
    auto slow = fast;
    std::vector<float> fast_state[2] = {std::vector<float>(count), std::vector<float>(count)};
    std::vector<float> slow_state[2] = {std::vector<float>(count), std::vector<float>(count)};
    for (long step = 1; step <= 20; ++step) {
      const auto gradients = random_values(count, 100 + static_cast<std::uint64_t>(step));
      const OptimizerStep numbers{
          .learning_rate = 0.01, .weight_decay = 0.1, .gradient_unscale = 0.5, .step = step};
      EXPECT_TRUE(optimizer.update(fast, gradients, fast_state[0], fast_state[1], numbers));
      EXPECT_TRUE(optimizer.reference(slow, gradients, slow_state[0], slow_state[1], numbers));
    }
    for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(fast[i], slow[i], 2e-6) << i;
  }
}

TEST_P(EachOptimizer, SaysWhenAGradientIsNotFinite) {
  const Optimizer& optimizer = optimizers().at(GetParam()).value;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t where : {std::size_t{0}, std::size_t{20}, std::size_t{36}}) {
      std::vector<float> weights(37, 1.0F);
      std::vector<float> gradients(37, 0.1F);
      std::vector<float> states[2] = {std::vector<float>(37), std::vector<float>(37)};
      gradients[where] = bad;
      EXPECT_FALSE(optimizer.update(weights, gradients, states[0], states[1], {}));
      EXPECT_FALSE(optimizer.reference(weights, gradients, states[0], states[1], {}));
    }
  }
}

TEST_P(EachOptimizer, ZeroPaddingStaysZero) {
  const Optimizer& optimizer = optimizers().at(GetParam()).value;
  std::vector<float> weights(16, 0.0F);
  const std::vector<float> gradients(16, 0.0F);
  std::vector<float> states[2] = {std::vector<float>(16), std::vector<float>(16)};
  for (long step = 1; step <= 3; ++step) {
    optimizer.update(weights, gradients, states[0], states[1], {.weight_decay = 0.1, .step = step});
  }
  for (const float weight : weights) EXPECT_EQ(weight, 0.0F);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EachOptimizer, testing::ValuesIn(optimizers().names()));

TEST(Sgd, MomentumWithoutNesterov) {
  std::vector<float> weights = {1.0F};
  std::vector<float> velocity = {0.0F};
  const std::vector<float> gradients = {1.0F};
  const OptimizerStep step{.learning_rate = 0.1, .momentum = 0.9};
  const auto& sgd = optimizers().at("sgd").value;
  sgd.update(weights, gradients, velocity, {}, step);
  EXPECT_FLOAT_EQ(weights[0], 0.9F);  // v = 1
  sgd.update(weights, gradients, velocity, {}, step);
  EXPECT_FLOAT_EQ(weights[0], 0.71F);  // v = 1.9
}

TEST(Adam, FirstStepMovesByTheLearningRate) {
  std::vector<float> weights = {1.0F, 1.0F};
  std::vector<float> m(2);
  std::vector<float> v(2);
  const std::vector<float> gradients = {5.0F, -0.001F};
  optimizers().at("adam").value.update(weights, gradients, m, v, {.learning_rate = 0.1});
  EXPECT_NEAR(weights[0], 0.9F, 1e-6);
  EXPECT_NEAR(weights[1], 1.1F, 1e-5);
}

TEST(AllFinite, FindsOneBadValueAnywhere) {
  std::vector<float> values(100, std::numeric_limits<float>::max());
  EXPECT_TRUE(all_finite(values));
  EXPECT_TRUE(all_finite({}));
  for (const std::size_t where : {std::size_t{0}, std::size_t{31}, std::size_t{99}}) {
    auto bad = values;
    bad[where] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(all_finite(bad));
    bad[where] = -std::numeric_limits<float>::infinity();
    EXPECT_FALSE(all_finite(bad));
  }
}

}  // namespace
