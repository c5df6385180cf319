#include "kernels/cuda/update.hpp"

#include <gtest/gtest.h>

#include "device_array.hpp"
#include "kernels/cuda/fill_optimizer.hpp"
#include "kernels/cuda/set_step.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::kernels::cuda {
namespace {

OptimizerStep some_step(long number) {
  OptimizerStep step;
  step.learning_rate = 0.013;
  step.weight_decay = 0.02;
  step.gradient_unscale = 1.0 / 64.0;
  step.step = number;
  return step;
}

struct Flat {
  std::vector<float> weights, gradients, state0, state1;
  explicit Flat(std::size_t size)
      : weights(random_elements(Element::f32, size, 1)),
        gradients(random_elements(Element::f32, size, 2)),
        state0(random_elements(Element::f32, size, 3)),
        state1(random_elements(Element::f32, size, 4)) {
    for (float& value : gradients) value *= 64.0F;
    for (float& value : state1) value *= value;
  }
};

struct Place {
  std::size_t buffers, copy;  // elements off the alignment
};

void check(const char* optimizer, Element element, std::size_t size, Place place) {
  Flat flat(size);
  DeviceArray weights(Element::f32, flat.weights, place.buffers);
  DeviceArray gradients(Element::f32, flat.gradients, place.buffers);
  DeviceArray state0(Element::f32, flat.state0, place.buffers);
  DeviceArray state1(Element::f32, flat.state1, place.buffers);
  DeviceArray copy(element, std::vector<float>(size), place.copy);
  const UpdateRange range = {
      weights.floats(), gradients.floats(), state0.floats(), state1.floats(), copy.data(), element, size};
  StepOutcome outcome;
  for (long number = 1; number <= 3; ++number) {
    StepBlock block;
    fill_optimizer(block, some_step(number));
    const UpdateRule rule = optimizer == std::string("sgd") ? UpdateRule::sgd : UpdateRule::adam;
    expect_success(update_weights(rule, range, &block, &outcome, nullptr));
    optimizers().at(optimizer).value.reference(flat.weights, flat.gradients, flat.state0, flat.state1,
                                               some_step(number));
  }
  expect_close(weights.values(), flat.weights, 6e-7);
  expect_close(state0.values(), flat.state0, 6e-7);
  expect_close(state1.values(), flat.state1, 6e-7);
  expect_same(copy.values(), rounded(weights.values(), element));
  EXPECT_EQ(outcome.weights_not_finite, 0);
}

TEST(UpdateWeights, IsTheReference) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    for (const Element element : elements) {
      for (const std::size_t size : odd_sizes) {
        check(optimizer, element, size, {0, 0});
        check(optimizer, element, size, {3, 3});
        check(optimizer, element, size, {0, 1});
      }
    }
  }
}

TEST(UpdateWeights, ManyStepsOfAdamStayWithTheReference) {
  std::vector<float> w = {1.0F}, m = {0.0F}, v = {0.0F};
  std::vector<float> w_device = w, m_device = m, v_device = v;
  StepOutcome outcome;
  for (long number = 1; number <= 1000; ++number) {
    const std::vector<float> gradient = {64.0F * std::sin(static_cast<float>(number))};
    StepBlock block;
    fill_optimizer(block, some_step(number));
    const UpdateRange range = {
        w_device.data(), gradient.data(), m_device.data(), v_device.data(), nullptr, Element::f32, 1};
    expect_success(update_weights(UpdateRule::adam, range, &block, &outcome, nullptr));
    optimizers().at("adam").value.reference(w, gradient, m, v, some_step(number));
  }
  EXPECT_NEAR(w_device[0], w[0], 2e-6);
}

TEST(UpdateWeights, AnOverflowedStepChangesNothing) {
  Flat flat(33);
  Flat device(33);
  std::vector<float> copy(33, 5.0F);
  StepBlock block;
  fill_optimizer(block, some_step(1));
  StepOutcome outcome;
  outcome.not_finite = 1;
  const UpdateRange range = {device.weights.data(),
                             device.gradients.data(),
                             device.state0.data(),
                             device.state1.data(),
                             copy.data(),
                             Element::f32,
                             33};
  expect_success(update_weights(UpdateRule::adam, range, &block, &outcome, nullptr));
  expect_success(update_weights(UpdateRule::sgd, range, &block, &outcome, nullptr));
  expect_same(device.weights, flat.weights);
  expect_same(device.state0, flat.state0);
  expect_same(device.state1, flat.state1);
  expect_same(copy, std::vector<float>(33, 5.0F));
}

TEST(UpdateWeights, NotesWeightsThatAreNotFinite) {
  for (const std::size_t where : {0, 30, 32}) {
    Flat flat(33);
    flat.weights[where] = infinity;
    StepBlock block;
    fill_optimizer(block, some_step(1));
    StepOutcome outcome;
    const UpdateRange range = {
        flat.weights.data(), flat.gradients.data(), flat.state0.data(), nullptr, nullptr, Element::f32, 33};
    expect_success(update_weights(UpdateRule::sgd, range, &block, &outcome, nullptr));
    EXPECT_EQ(outcome.weights_not_finite, 1);
    EXPECT_EQ(outcome.not_finite, 0);
  }
}

TEST(SetStep, WritesTheBlockAndClearsTheOutcome) {
  StepBlock block;
  StepBlock value;
  fill_optimizer(value, some_step(7));
  value.gradient_scale = 0.25F;
  value.pixels = reinterpret_cast<const std::uint8_t*>(&value);
  StepOutcome outcome = {1.0, 2, 3, 4, 5, 6};
  expect_success(set_step(&block, value, nullptr, nullptr));
  EXPECT_EQ(outcome.correct, 2);
  EXPECT_EQ(block.gradient_scale, 0.25F);
  EXPECT_EQ(block.learning_rate, 0.013F);
  EXPECT_EQ(block.decay, static_cast<float>(0.013 * 0.02));
  EXPECT_EQ(block.pixels, value.pixels);
  expect_success(set_step(&block, StepBlock{}, &outcome, nullptr));
  EXPECT_EQ(block.learning_rate, 0.0F);
  EXPECT_EQ(outcome.loss_sum, 0.0);
  EXPECT_EQ(outcome.correct, 0);
  EXPECT_EQ(outcome.own_not_finite, 0);
  EXPECT_EQ(outcome.not_finite, 0);
  EXPECT_EQ(outcome.weights_not_finite, 0);
  EXPECT_EQ(outcome.loss_blocks, 0U);
}

}  // namespace
}  // namespace dtrain::kernels::cuda
