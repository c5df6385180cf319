#include "kernels/cuda/elementwise.hpp"

#include <gtest/gtest.h>

#include "device_array.hpp"
#include "kernels/cuda/cast.hpp"
#include "kernels/elementwise.hpp"

namespace dtrain::kernels::cuda {
namespace {

// Sizes and places of arrays: together off the alignment, apart, and on it.
template <class Check>
void for_all_places(Check check) {
  for (const Element element : elements) {
    for (const std::size_t size : odd_sizes) {
      check(element, size, 0, 0);
      check(element, size, 3, 3);
      check(element, size, 1, 2);
    }
  }
}

TEST(Elementwise, ReluBackwardIsTheReference) {
  for_all_places([](Element element, std::size_t size, std::size_t one, std::size_t other) {
    const auto y = random_elements(element, size, 1);
    auto dy = random_elements(element, size, 2);
    DeviceArray device_y(element, y, one), device_dy(element, dy, other), dx(element, y, one);
    expect_success(relu_backward(device_y.data(), device_dy.data(), dx.data(), element, size, nullptr));
    expect_success(
        relu_backward(device_y.data(), device_dy.data(), device_dy.data(), element, size, nullptr));
    kernels::relu_backward(y, dy);
    expect_same(dx.values(), dy);
    expect_same(device_dy.values(), dy);
  });
}

TEST(Elementwise, ReluBackwardPassesOnWhatIsNotFinite) {
  DeviceArray y(Element::f16, std::vector<float>{1.0F, 0.0F, 2.0F, not_a_number, -0.0F});
  DeviceArray dy(Element::f16, std::vector<float>{infinity, infinity, not_a_number, 1.0F, 1.0F});
  expect_success(relu_backward(y.data(), dy.data(), dy.data(), Element::f16, 5, nullptr));
  expect_same(dy.values(), {infinity, 0.0F, not_a_number, 0.0F, 0.0F});
}

TEST(Elementwise, SumsAreRoundedOnce) {
  for_all_places([](Element element, std::size_t size, std::size_t one, std::size_t other) {
    const auto a = random_elements(element, size, 3);
    const auto b = random_elements(element, size, 4);
    std::vector<float> expected(size);
    kernels::add(a, b, expected);
    expected = rounded(expected, element);
    DeviceArray device_a(element, a, one), device_b(element, b, other), sum(element, a, other);
    expect_success(add(device_a.data(), device_b.data(), sum.data(), element, size, nullptr));
    expect_same(sum.values(), expected);
    expect_success(accumulate(device_a.data(), device_b.data(), element, size, nullptr));
    expect_same(device_b.values(), expected);
    expect_same(device_a.values(), a);
  });
}

TEST(Cast, RoundsToTheNearestEvenAndBack) {
  for_all_places([](Element element, std::size_t size, std::size_t one, std::size_t other) {
    const auto values = random_elements(Element::f32, size, 5);
    DeviceArray from(Element::f32, values, one), to(element, std::vector<float>(size), other);
    DeviceArray back(Element::f32, std::vector<float>(size), other);
    expect_success(cast_from_float(from.floats(), to.data(), element, size, nullptr));
    expect_success(cast_to_float(to.data(), element, back.floats(), size, nullptr));
    expect_same(to.values(), rounded(values, element));
    expect_same(back.values(), to.values());
  });
}

TEST(Cast, KeepsInfinitiesAndTiesGoToEven) {
  const std::vector<float> values = {infinity, -infinity,      not_a_number, 65520.0F,
                                     65519.0F, 1.00048828125F, 3e-8F};
  DeviceArray from(Element::f32, values), to(Element::f16, std::vector<float>(7));
  expect_success(cast_from_float(from.floats(), to.data(), Element::f16, 7, nullptr));
  expect_same(to.values(), {infinity, -infinity, not_a_number, infinity, 65504.0F, 1.0F, 5.9604645e-8F});
}

}  // namespace
}  // namespace dtrain::kernels::cuda
