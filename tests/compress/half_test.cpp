#include "kernels/half.hpp"

#include <gtest/gtest.h>

#include "values.hpp"

namespace dtrain::kernels {
namespace {

using testing::infinity;
using testing::nan;

class EachHalf : public ::testing::TestWithParam<HalfFormat> {
 protected:
  std::uint16_t encode(float value) const {
    std::uint16_t half = 0;
    float residual = 0.0F;
    compress_to_half({&value, 1}, {&residual, 1}, {&half, 1}, GetParam());
    return half;
  }
  float decode(std::uint16_t half) const {
    float value = 0.0F;
    expand_half({&half, 1}, {&value, 1}, GetParam());
    return value;
  }
  float largest() const { return GetParam() == HalfFormat::fp16 ? 65504.0F : 0x1.fep127F; }
};

TEST_P(EachHalf, HasTheValuesOfTheReference) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float expected = half_value_reference(half, GetParam());
    const float value = decode(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(decode(encode(value)))) << bits;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected)) << bits;
    ASSERT_EQ(encode(value), value == 0.0F ? 0 : half) << bits;  // a residual of 0 takes the sign of -0
  }
}

// Every exponent a float can have, and every way to lie between two halves.
TEST_P(EachHalf, RoundsAsTheReferenceAndKeepsWhatWasLost) {
  Random random(1);
  for (const std::size_t size : {1U, 7U, 16U, 33U, 200'003U}) {
    std::vector<float> values(size);
    for (float& value : values) {
      const auto bits = static_cast<std::uint32_t>(random.next());
      value = std::bit_cast<float>(random.below(4) == 0 ? bits & 0xfffff000U : bits);
    }
    std::vector<float> residual(size);
    for (std::size_t i = 0; i < size; ++i) residual[i] = random.below(2) == 0 ? 0.0F : values[i] * 1e-3F;
    std::ranges::replace_if(
        residual, [](float x) { return !std::isfinite(x); }, 0.0F);
    std::vector<float> expected_residual = residual;
    std::vector<std::uint16_t> halves(size);
    std::vector<std::uint16_t> expected(size);
    compress_to_half(values, residual, halves, GetParam());
    compress_to_half_reference(values, expected_residual, expected, GetParam());
    ASSERT_EQ(testing::bits_of(residual), testing::bits_of(expected_residual));
    for (std::size_t i = 0; i < size; ++i) {
      if (std::isnan(values[i])) continue;
      ASSERT_EQ(halves[i], expected[i]) << values[i];
    }
  }
}

TEST_P(EachHalf, AddsValues) {
  std::vector<std::uint16_t> halves;
  for (const float value : {1.5F, -2.0F, 0.25F}) halves.push_back(encode(value));
  std::vector<float> sums = {1.0F, 1.0F, 1.0F};
  add_half(halves, sums, GetParam());
  EXPECT_EQ(sums, (std::vector<float>{2.5F, -1.0F, 1.25F}));
}

TEST_P(EachHalf, ReachesItsLargestAndNoFurther) {
  const float beyond = largest() * 1.001F;
  for (const float sign : {1.0F, -1.0F}) {
    const float value = sign * beyond;
    float residual = 0.0F;
    std::uint16_t half = 0;
    compress_to_half({&value, 1}, {&residual, 1}, {&half, 1}, GetParam());
    EXPECT_EQ(decode(half), sign * largest());
    EXPECT_EQ(residual, value - sign * largest());
  }
}

TEST_P(EachHalf, KeepsWhatIsNotFiniteVisibleAndDoesNotRememberIt) {
  const std::vector<float> values = {nan, infinity, -infinity, 1.0F, -nan};
  std::vector<float> residual = {1.0F, 1.0F, 1.0F, nan, 1.0F};
  std::vector<std::uint16_t> halves(values.size());
  compress_to_half(values, residual, halves, GetParam());
  EXPECT_TRUE(std::isnan(decode(halves[0])));
  EXPECT_EQ(decode(halves[1]), infinity);
  EXPECT_EQ(decode(halves[2]), -infinity);
  EXPECT_TRUE(std::isnan(decode(halves[3])));
  EXPECT_TRUE(std::isnan(decode(halves[4])));
  EXPECT_EQ(residual, std::vector<float>(values.size(), 0.0F));
}

INSTANTIATE_TEST_SUITE_P(Formats, EachHalf, ::testing::Values(HalfFormat::fp16, HalfFormat::bf16),
                         [](const auto& format) {
                           return format.param == HalfFormat::fp16 ? "fp16" : "bf16";
                         });

TEST(Half, RoundsTiesToEven) {
  const auto rounded = [](float value, HalfFormat format) {
    float residual = 0.0F;
    std::uint16_t half = 0;
    compress_to_half({&value, 1}, {&residual, 1}, {&half, 1}, format);
    return half_value_reference(half, format);
  };
  EXPECT_EQ(rounded(2049.0F, HalfFormat::fp16), 2048.0F);
  EXPECT_EQ(rounded(2051.0F, HalfFormat::fp16), 2052.0F);
  EXPECT_EQ(rounded(0x1.8p-24F, HalfFormat::fp16), 0x1p-23F);  // between two subnormals
  EXPECT_EQ(rounded(0x1p-25F, HalfFormat::fp16), 0.0F);
  EXPECT_EQ(rounded(257.0F, HalfFormat::bf16), 256.0F);
  EXPECT_EQ(rounded(259.0F, HalfFormat::bf16), 260.0F);
}

}  // namespace
}  // namespace dtrain::kernels
