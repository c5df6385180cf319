#include <gtest/gtest.h>

#include <bit>

#include "device_array.hpp"
#include "kernels/cuda/softmax_cross_entropy.hpp"
#include "kernels/softmax_cross_entropy.hpp"
#include "simt/simt.hpp"

namespace dtrain::kernels::cuda {
namespace {

std::vector<std::int32_t> some_labels(std::size_t count, int classes) {
  std::vector<std::int32_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int32_t>(i * 7 % classes);
  return labels;
}

StepOutcome loss_of(DeviceArray& logits, const std::vector<std::int32_t>& labels, int classes,
                    Element element, float scale, void* gradient) {
  StepBlock step;
  step.gradient_scale = scale;
  StepOutcome outcome;
  std::vector<double> scratch(loss_scratch, not_a_number);
  const LossBatch batch = {logits.data(), labels.data(), gradient, element, static_cast<int>(labels.size()),
                           classes};
  expect_success(softmax_cross_entropy(batch, &step, &outcome, scratch.data(), nullptr));
  return outcome;
}

TEST(DeviceSoftmaxCrossEntropy, IsTheReference) {
  for (const Element element : elements) {
    for (const int classes : {1, 2, 10, 16, 100}) {
      for (const std::size_t count : odd_sizes) {
        if (count * classes > 10'000) continue;  // the same code again
        const auto labels = some_labels(count, classes);
        const auto logits = random_elements(element, count * classes, 1);
        DeviceArray device(element, logits, 1), gradient(element, std::vector<float>(logits.size()));
        const StepOutcome outcome = loss_of(device, labels, classes, element, 0.5F, gradient.data());

        std::vector<float> expected(logits.size());
        const LossSum sum = softmax_cross_entropy_reference(logits, labels, classes, 0.5F, expected);
        EXPECT_NEAR(outcome.loss_sum, sum.loss, 2e-7 * std::max(1.0, sum.loss));
        EXPECT_EQ(outcome.correct, sum.correct);
        EXPECT_EQ(outcome.loss_blocks, 0U);
        const double half = 0.51 * spacing(element);
        expect_close(gradient.values(), expected, half, 6e-8 / half);
      }
    }
  }
}

TEST(DeviceSoftmaxCrossEntropy, AddsToWhatIsThereAndDoesWithoutAGradient) {
  const auto logits = random_elements(Element::f32, 330, 2);
  const auto labels = some_labels(33, 10);
  DeviceArray device(Element::f32, logits);
  StepOutcome outcome;
  outcome.loss_sum = 100.0;
  outcome.correct = 7;
  StepBlock step;
  std::vector<double> scratch(loss_scratch);
  const LossBatch batch = {device.data(), labels.data(), nullptr, Element::f32, 33, 10};
  expect_success(softmax_cross_entropy(batch, &step, &outcome, scratch.data(), nullptr));
  const LossSum sum = softmax_cross_entropy_reference(logits, labels, 10, 1.0F, {});
  EXPECT_NEAR(outcome.loss_sum, 100.0 + sum.loss, 1e-5);
  EXPECT_EQ(outcome.correct, 7 + sum.correct);
}

TEST(DeviceSoftmaxCrossEntropy, TheFirstOfEqualLogitsWins) {
  for (int label = 0; label < 3; ++label) {
    DeviceArray logits(Element::bf16, std::vector<float>{1.0F, 2.0F, 2.0F});
    const StepOutcome outcome = loss_of(logits, {label}, 3, Element::bf16, 1.0F, nullptr);
    EXPECT_EQ(outcome.correct, label == 1 ? 1 : 0);
  }
}

TEST(DeviceSoftmaxCrossEntropy, HugeLogitsDoNotOverflow) {
  DeviceArray logits(Element::f32, std::vector<float>{10000.0F, -10000.0F});
  EXPECT_NEAR(loss_of(logits, {1}, 2, Element::f32, 1.0F, nullptr).loss_sum, 20000.0, 1e-3);
}

TEST(DeviceSoftmaxCrossEntropy, WhatIsNotFiniteShowsInLossAndGradient) {
  for (const float bad : {not_a_number, infinity}) {
    for (const std::size_t where : {0, 5, 9}) {
      std::vector<float> values(20, 1.0F);
      values[where] = bad;
      DeviceArray logits(Element::f16, values), gradient(Element::f16, values);
      const StepOutcome outcome = loss_of(logits, {3, 4}, 10, Element::f16, 1.0F, gradient.data());
      EXPECT_TRUE(std::isnan(outcome.loss_sum));
      EXPECT_TRUE(std::isnan(gradient.values()[where]));
      EXPECT_NEAR(gradient.values()[10], 0.1F, 1e-4);  // of the other image
    }
  }
}

TEST(DeviceSoftmaxCrossEntropy, HasTheSameBitsInAnyOrder) {
  const auto logits = random_elements(Element::f32, 1000 * 10, 3);
  const auto labels = some_labels(1000, 10);
  std::vector<std::uint64_t> losses;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    simt::set_seed(seed);
    DeviceArray device(Element::f32, logits);
    const StepOutcome outcome = loss_of(device, labels, 10, Element::f32, 1.0F, nullptr);
    losses.push_back(std::bit_cast<std::uint64_t>(outcome.loss_sum));
  }
  simt::set_seed(1);
  for (const std::uint64_t loss : losses) EXPECT_EQ(loss, losses[0]);
}

}  // namespace
}  // namespace dtrain::kernels::cuda
