#include "kernels/top_k.hpp"

#include <gtest/gtest.h>

#include "values.hpp"

namespace dtrain::kernels {
namespace {

using testing::infinity;
using testing::nan;

struct Outcome {
  std::vector<std::uint32_t> indices;
  std::vector<std::uint32_t> values;    // bits
  std::vector<std::uint32_t> residual;  // bits
  bool operator==(const Outcome&) const = default;
};

template <class Select>
Outcome outcome_of(const Select& select, std::span<const float> values, std::vector<float> residual,
                   std::size_t k) {
  std::vector<Pair> pairs(k);
  select(values, residual, pairs);
  Outcome outcome;
  for (const Pair& pair : pairs) {
    outcome.indices.push_back(pair.index);
    outcome.values.push_back(std::bit_cast<std::uint32_t>(pair.value));
  }
  outcome.residual = testing::bits_of(residual);
  return outcome;
}

void expect_reference(std::span<const float> values, const std::vector<float>& residual, std::size_t k) {
  EXPECT_EQ(outcome_of(top_k, values, residual, k), outcome_of(top_k_reference, values, residual, k))
      << k << " of " << values.size();
}

TEST(TopK, IsTheReference) {
  for (const std::size_t size : {1U, 2U, 15U, 2048U, 2049U, 10'007U}) {
    const auto values = testing::normal_values(size, size);
    const auto residual = testing::normal_values(size, size + 1);
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, size / 100, size / 2, size}) {
      expect_reference(values, residual, k);
    }
  }
}

// Few different magnitudes, so that most are equals; and magnitudes that differ in their last bits only.
TEST(TopK, TakesTheFirstOfEquals) {
  Random random(3);
  std::vector<float> steps(5000);
  std::vector<float> close(5000);
  for (float& value : steps) value = static_cast<float>(random.below(7)) - 3.0F;
  for (float& value : close) {
    value = std::bit_cast<float>(0x3f800000U + static_cast<std::uint32_t>(random.below(5)));
  }
  const std::vector<float> residual(5000, 0.0F);
  for (const std::size_t k : {1U, 100U, 2500U, 4999U}) {
    expect_reference(steps, residual, k);
    expect_reference(close, residual, k);
  }
}

TEST(TopK, TakesTheFirstOfNothingButZeros) {
  const std::vector<float> values(100, 0.0F);
  std::vector<float> residual(100, 0.0F);
  std::vector<Pair> pairs(3);
  top_k(values, residual, pairs);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pairs[i].index, i);
    EXPECT_EQ(pairs[i].value, 0.0F);
  }
}

TEST(TopK, FindsNaNLargerThanInfinity) {
  std::vector<float> values(3000, 1.0F);
  values[2999] = nan;
  values[100] = -infinity;
  values[2500] = std::numeric_limits<float>::max();
  std::vector<float> residual(3000, 0.0F);
  std::vector<Pair> pairs(2);
  top_k(values, residual, pairs);
  EXPECT_EQ(pairs[0].index, 100U);
  EXPECT_EQ(pairs[0].value, -infinity);
  EXPECT_EQ(pairs[1].index, 2999U);
  EXPECT_TRUE(std::isnan(pairs[1].value));
  EXPECT_EQ(residual[2999], 0.0F);
  EXPECT_EQ(residual[2500], std::numeric_limits<float>::max());
}

TEST(TopK, WhatWasTakenAddsUpWhereItBelongs) {
  std::vector<float> values = {1.0F, 2.0F, 3.0F};
  const std::vector<Pair> pairs = {{0, 10.0F}, {2, 20.0F}, {0, 5.0F}};
  scatter_add(pairs, values);
  EXPECT_EQ(values, (std::vector<float>{16.0F, 2.0F, 23.0F}));
}

}  // namespace
}  // namespace dtrain::kernels
