#include "kernels/cuda/batch_norm.hpp"

#include <gtest/gtest.h>

#include "device_array.hpp"

namespace dtrain::kernels::cuda {
namespace {

struct Channels {
  std::vector<float> mean, variance, gamma, beta;
  explicit Channels(std::size_t count)
      : mean(random_elements(Element::f32, count, 1)),
        variance(random_elements(Element::f32, count, 2)),
        gamma(random_elements(Element::f32, count, 3)),
        beta(random_elements(Element::f32, count, 4)) {
    for (float& value : variance) value = value * value + 0.1F;
  }
  BatchNormValues values() const { return {mean.data(), variance.data(), gamma.data(), beta.data(), 1e-5F}; }
};

TEST(BatchNormInference, IsTheReference) {
  for (const Element element : elements) {
    for (const std::size_t count : {1, 3, 8, 24, 64, 513, 2048}) {
      for (const std::size_t rows : {0, 1, 7, 65}) {
        for (const bool relu : {false, true}) {
          const Channels channels(count);
          const auto x = random_elements(element, rows * count, 5);
          std::vector<float> expected(x.size());
          batch_norm_inference_reference(x, expected, channels.mean, channels.variance, channels.gamma,
                                         channels.beta, 1e-5F, relu);
          DeviceArray from(element, x), to(element, x, rows % 2);
          const auto width = static_cast<int>(count);
          expect_success(batch_norm_inference(from.data(), to.data(), element, rows, width, channels.values(),
                                              relu, nullptr));
          expect_close(to.values(), expected, 6.0 * spacing(Element::f32) + 0.51 * spacing(element));
          expect_success(batch_norm_inference(from.data(), from.data(), element, rows, width,
                                              channels.values(), relu, nullptr));
          expect_same(from.values(), to.values());
        }
      }
    }
  }
}

TEST(BatchNormInference, KeepsWhatIsNotANumber) {
  const Channels channels(2);
  DeviceArray x(Element::f32, std::vector<float>{not_a_number, 0.0F});
  expect_success(
      batch_norm_inference(x.data(), x.data(), Element::f32, 1, 2, channels.values(), true, nullptr));
  EXPECT_TRUE(std::isnan(x.values()[0]));
  EXPECT_FALSE(std::isnan(x.values()[1]));
}

}  // namespace
}  // namespace dtrain::kernels::cuda
