#include "kernels/cuda/compress.hpp"

#include <gtest/gtest.h>

#include "device_array.hpp"
#include "kernels/cuda/cast.hpp"

namespace dtrain::kernels::cuda {
namespace {

TEST(Compress, IsTheReferenceOverManySteps) {
  for (const Element element : elements) {
    for (const std::size_t size : odd_sizes) {
      for (const std::size_t shift : {0, 1}) {
        std::vector<float> residual(size), sent(size);
        DeviceArray device_residual(Element::f32, residual, shift), device_sent(element, sent);
        for (std::uint64_t step = 0; step < 3; ++step) {
          const auto values = random_elements(Element::f32, size, step);
          DeviceArray device_values(Element::f32, values, shift);
          expect_success(compress(device_values.floats(), device_residual.floats(), device_sent.data(),
                                  element, size, nullptr));
          compress_reference(values, residual, sent, element);
          expect_same(device_sent.values(), sent);
          expect_same(device_residual.values(), residual);
        }
      }
    }
  }
}

TEST(Compress, LosesNothingInTheLongRun) {
  float residual = 0.0F;
  double arrived = 0.0;
  const float value = 0.1F;
  for (int step = 0; step < 1000; ++step) {
    DeviceArray sent(Element::bf16, std::vector<float>(1));
    expect_success(compress(&value, &residual, sent.data(), Element::bf16, 1, nullptr));
    arrived += sent.values()[0];
  }
  EXPECT_NEAR(arrived + residual, 1000.0 * value, 1e-4);
  EXPECT_LT(std::abs(residual), 4e-4);
}

TEST(Compress, SaturatesAndLetsThroughWhatIsNotFinite) {
  const std::vector<float> values = {70000.0F, -1e6F, infinity, not_a_number, -infinity, 1.0F};
  std::vector<float> residual = {0.0F, 0.0F, 1.0F, 1.0F, 1.0F, 0.0F};
  DeviceArray sent(Element::f16, std::vector<float>(6));
  expect_success(compress(values.data(), residual.data(), sent.data(), Element::f16, 6, nullptr));
  expect_same(sent.values(), {65504.0F, -65504.0F, infinity, not_a_number, -infinity, 1.0F});
  expect_same(residual, {4496.0F, -934496.0F, 0.0F, 0.0F, 0.0F, 0.0F});

  const std::vector<float> huge = {3.4028235e38F};
  std::vector<float> rest = {0.0F};
  DeviceArray bf16(Element::bf16, std::vector<float>(1));
  expect_success(compress(huge.data(), rest.data(), bf16.data(), Element::bf16, 1, nullptr));
  EXPECT_EQ(bf16.values()[0], 3.3895314e38F);
  EXPECT_EQ(rest[0], huge[0] - 3.3895314e38F);
}

void check_top_k(const std::vector<float>& values, std::vector<float> residual, std::size_t k,
                 std::size_t shift) {
  DeviceArray device_values(Element::f32, values, shift), device_residual(Element::f32, residual, shift);
  const Pair nothing = {12345, 5.0F};
  std::vector<Pair> pairs(k + 1, nothing);
  std::vector<std::max_align_t> scratch(top_k_scratch(values.size()) / sizeof(std::max_align_t) + 1);
  std::memset(scratch.data(), 0xff, scratch.size() * sizeof(std::max_align_t));
  expect_success(top_k(device_values.floats(), device_residual.floats(), values.size(), k, pairs.data(),
                       scratch.data(), nullptr));

  const auto expected = top_k_reference(values, residual, k);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(pairs[i].index, expected[i].index) << i << " of " << k << " in " << values.size();
    expect_same({pairs[i].value}, {expected[i].value});
  }
  for (std::size_t i = expected.size(); i < pairs.size(); ++i) EXPECT_EQ(pairs[i].index, nothing.index);
  expect_same(device_residual.values(), residual);
}

TEST(TopK, IsTheReference) {
  for (const std::size_t size : odd_sizes) {
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, size / 100, size / 3, size, size + 5}) {
      for (const std::size_t shift : {0, 1}) {
        check_top_k(random_elements(Element::f32, size, 1), random_elements(Element::f32, size, 2), k, shift);
      }
    }
  }
}

TEST(TopK, TheFirstOfEqualsGo) {
  const std::size_t size = 5000;
  for (const std::size_t k : {1, 31, 1025, 2501, 4999}) {
    check_top_k(std::vector<float>(size, -2.0F), std::vector<float>(size), k, 0);
    std::vector<float> few(size);
    for (std::size_t i = 0; i < size; ++i) few[i] = static_cast<float>(i * 7 % 5) - 2.0F;
    check_top_k(few, std::vector<float>(size), k, 0);
    check_top_k(std::vector<float>(size), std::vector<float>(size), k, 0);
  }
}

TEST(TopK, TellsNeighboursApartDownToTheLastBit) {
  std::vector<float> values(3000);
  float value = 1.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i * 1001 % values.size()] = (i % 2 == 0 ? 1.0F : -1.0F) * value;
    value = std::nextafter(value, 2.0F);
  }
  for (const std::size_t k : {1, 100, 2999}) check_top_k(values, std::vector<float>(3000), k, 0);
}

TEST(TopK, WhatIsNotFiniteGoesFirst) {
  auto values = random_elements(Element::f32, 1000, 3);
  values[500] = infinity;
  values[700] = not_a_number;
  values[900] = -infinity;
  for (const std::size_t k : {1, 2, 3, 10}) check_top_k(values, std::vector<float>(1000), k, 0);
}

TEST(TopK, TakesMoreChunksThanABlockHasThreads) {
  auto values = random_elements(Element::f32, 264'000, 4);
  check_top_k(values, std::vector<float>(values.size()), 4000, 0);
}

TEST(ScatterAdd, AddsPairsWhereTheyBelong) {
  const std::vector<Pair> pairs = {{0, 1.5F}, {7, -2.0F}, {9, 3.0F}};
  DeviceArray values(Element::f32, std::vector<float>(10, 1.0F), 1);
  expect_success(scatter_add(pairs.data(), 3, values.floats(), nullptr));
  expect_same(values.values(), {2.5F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F, -1.0F, 1.0F, 4.0F});
  expect_success(scatter_add(pairs.data(), 0, values.floats(), nullptr));
}

}  // namespace
}  // namespace dtrain::kernels::cuda
