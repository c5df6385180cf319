#include <gtest/gtest.h>

#include "device_array.hpp"
#include "kernels/cuda/bias_gradient.hpp"
#include "kernels/cuda/running_statistics.hpp"

namespace dtrain::kernels::cuda {
namespace {

struct Matrix {
  std::size_t rows;
  int channels;
};

TEST(BiasGradient, SumsTheRowsOfEachChannel) {
  for (const Element element : elements) {
    for (const auto& [rows, channels] : {Matrix{1, 1},
                                         {1, 10},
                                         {127, 10},
                                         {129, 33},
                                         {1000, 64},
                                         {300, 256},
                                         {77, 300},
                                         {1025, 1},
                                         {20000, 16},
                                         {5, 2304}}) {
      const auto count = static_cast<std::size_t>(channels);
      const auto values = random_elements(element, rows * count, 3);
      DeviceArray array(element, values);
      std::vector<float> expected(count);
      for (std::size_t c = 0; c < count; ++c) {
        double sum = 0.0;
        for (std::size_t row = 0; row < rows; ++row) sum += static_cast<double>(values[row * count + c]);
        expected[c] = static_cast<float>(sum);
      }
      DeviceArray sums(Element::f32, std::vector<float>(count, 100.0F));
      std::vector<float> scratch(bias_scratch(channels), not_a_number);
      expect_success(bias_gradient(array.data(), element, rows, channels, sums.floats(), false,
                                   scratch.data(), nullptr));
      expect_close(sums.values(), expected, 2e-6, std::sqrt(static_cast<double>(rows)));
      const auto once = sums.values();
      expect_success(
          bias_gradient(array.data(), element, rows, channels, sums.floats(), true, scratch.data(), nullptr));
      for (std::size_t c = 0; c < count; ++c) EXPECT_EQ(sums.values()[c], once[c] + once[c]);
    }
  }
}

TEST(BiasGradient, OfNoRowsIsZeroAndOfABadValueIsBad) {
  DeviceArray sums(Element::f32, std::vector<float>(3, 5.0F));
  std::vector<float> scratch(bias_scratch(3));
  expect_success(bias_gradient(nullptr, Element::f32, 0, 3, sums.floats(), false, scratch.data(), nullptr));
  expect_same(sums.values(), {0.0F, 0.0F, 0.0F});
  DeviceArray values(Element::f16, std::vector<float>{1.0F, infinity, 2.0F, 1.0F, 0.0F, not_a_number});
  expect_success(
      bias_gradient(values.data(), Element::f16, 2, 3, sums.floats(), false, scratch.data(), nullptr));
  expect_same(sums.values(), {2.0F, infinity, not_a_number});
}

TEST(RunningStatistics, FollowTheBatchWithItsUnbiasedVariance) {
  for (const int channels : {1, 31, 300}) {
    const auto count = static_cast<std::size_t>(channels);
    const auto mean = random_elements(Element::f32, count, 1);
    auto inverse = random_elements(Element::f32, count, 2);
    for (float& value : inverse) value = std::abs(value) + 0.1F;
    const auto old_mean = random_elements(Element::f32, count, 3);
    const auto old_variance = random_elements(Element::f32, count, 4);
    DeviceArray running_mean(Element::f32, old_mean);
    DeviceArray running_variance(Element::f32, old_variance);
    expect_success(update_running_statistics({.batch_mean = mean.data(),
                                              .batch_inverse_deviation = inverse.data(),
                                              .running_mean = running_mean.floats(),
                                              .running_variance = running_variance.floats(),
                                              .epsilon = 1e-3F,
                                              .momentum = 0.25F,
                                              .count = 5.0},
                                             channels, nullptr));
    std::vector<float> want_mean(count);
    std::vector<float> want_variance(count);
    for (std::size_t c = 0; c < count; ++c) {
      const double biased = std::max(1.0 / (static_cast<double>(inverse[c]) * inverse[c]) - 1e-3, 0.0);
      want_mean[c] = static_cast<float>(0.75 * old_mean[c] + 0.25 * mean[c]);
      want_variance[c] = static_cast<float>(0.75 * old_variance[c] + 0.25 * biased * 5.0 / 4.0);
    }
    expect_close(running_mean.values(), want_mean, 1e-6);
    expect_close(running_variance.values(), want_variance, 1e-6);
  }
}

}  // namespace
}  // namespace dtrain::kernels::cuda
