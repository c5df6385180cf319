#include <gtest/gtest.h>

#include <cmath>

#include "kernels/softmax_cross_entropy.hpp"
#include "random_values.hpp"

namespace {

using namespace dtrain::kernels;

TEST(SoftmaxCrossEntropy, IsTheReference) {
  const auto logits = random_values(1003 * 10, 2);
  std::vector<std::int32_t> labels(1003);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  std::vector<float> gradient(logits.size()), reference(logits.size());
  const LossSum fast = softmax_cross_entropy(logits, labels, 10, 0.01F, gradient);
  const LossSum slow = softmax_cross_entropy_reference(logits, labels, 10, 0.01F, reference);
  EXPECT_NEAR(fast.loss / slow.loss, 1.0, 1e-7);
  EXPECT_EQ(fast.correct, slow.correct);
  for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient[i], reference[i], 1e-8);
}

TEST(SoftmaxCrossEntropy, EqualLogitsLoseTheLogarithmOfTheClasses) {
  const std::vector<float> logits(10, 3.0F);
  const std::vector<std::int32_t> labels = {4};
  std::vector<float> gradient(10);
  const LossSum sum = softmax_cross_entropy(logits, labels, 10, 1.0F, gradient);
  EXPECT_NEAR(sum.loss, std::log(10.0), 1e-6);
  EXPECT_EQ(sum.correct, 0);  // the first of the largest wins
  EXPECT_NEAR(gradient[4], -0.9F, 1e-6);
  EXPECT_NEAR(gradient[0], 0.1F, 1e-6);
}

TEST(SoftmaxCrossEntropy, HugeLogitsDoNotOverflow) {
  const std::vector<float> logits = {10000.0F, -10000.0F};
  const std::vector<std::int32_t> labels = {1};
  const LossSum sum = softmax_cross_entropy(logits, labels, 2, 1.0F, {});
  EXPECT_NEAR(sum.loss, 20000.0, 1e-3);
}

TEST(SoftmaxCrossEntropy, NotANumberShowsInTheLoss) {
  const std::vector<float> logits = {std::nanf(""), 1.0F};
  const std::vector<std::int32_t> labels = {1};
  EXPECT_TRUE(std::isnan(softmax_cross_entropy(logits, labels, 2, 1.0F, {}).loss));
}

}  // namespace
