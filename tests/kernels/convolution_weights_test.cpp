#include "kernels/convolution_weights.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/peak.hpp"
#include "random_values.hpp"

namespace {

using namespace dtrain::kernels;

int native_block() { return std::string(instruction_set()) == "avx512" ? 16 : 8; }

struct Case {
  int images, in_channels, size, out_blocks, padding;
  bool plain;
};

class EachConvolution : public testing::TestWithParam<Case> {};

TEST_P(EachConvolution, FastIsTheReference) {
  const Case c = GetParam();
  const int block = native_block();
  const int channels = c.plain ? c.in_channels : c.in_channels * block;
  const WeightsGradientShape shape{c.images,  channels, c.size, c.size + 1, c.out_blocks * block,
                                   c.padding, block,    c.plain};
  if (!weights_gradient_supported(shape))
    GTEST_SKIP() << "no AVX2 here: the library's kernel is used instead";

  const auto x = random_values(static_cast<std::size_t>(c.images) * channels * c.size * (c.size + 1), 1);
  const auto dy = random_values(
      static_cast<std::size_t>(c.images) * shape.out_channels * shape.out_height() * shape.out_width(), 2);
  const std::size_t weights = static_cast<std::size_t>(channels) * shape.out_channels * 9;
  std::vector<float> dw(weights, 7.0F), reference(weights);
  std::vector<float> db(shape.out_channels, 7.0F), bias_reference(shape.out_channels);
  weights_gradient_reference(shape, x.data(), dy.data(), reference.data(), bias_reference);
  float largest = 0.0F;
  for (const float value : reference) largest = std::max(largest, std::abs(value));

  weights_gradient(shape, x.data(), dy.data(), dw.data(), db, false, 0, c.out_blocks);
  for (std::size_t i = 0; i < weights; ++i) ASSERT_NEAR(dw[i], reference[i], 1e-5F * largest) << i;
  for (std::size_t i = 0; i < db.size(); ++i) ASSERT_NEAR(db[i], bias_reference[i], 1e-5F * largest) << i;

  // In parts, added to what is there.
  for (int b = 0; b < c.out_blocks; ++b) {
    weights_gradient(shape, x.data(), dy.data(), dw.data(), db, true, b, b + 1);
  }
  for (std::size_t i = 0; i < weights; ++i) ASSERT_NEAR(dw[i], 2.0F * reference[i], 2e-5F * largest) << i;
  for (std::size_t i = 0; i < db.size(); ++i)
    ASSERT_NEAR(db[i], 2.0F * bias_reference[i], 2e-5F * largest) << i;
}

INSTANTIATE_TEST_SUITE_P(Shapes, EachConvolution,
                         testing::Values(Case{2, 3, 32, 4, 0, true}, Case{3, 3, 8, 1, 1, true},
                                         Case{2, 4, 15, 8, 0, false}, Case{5, 1, 6, 3, 0, false},
                                         Case{2, 2, 9, 2, 1, false}, Case{1, 1, 2, 1, 1, false},
                                         Case{3, 5, 3, 1, 0, true}, Case{1, 1, 5, 2, 0, true},
                                         Case{7, 2, 4, 5, 1, false}));

TEST(ConvolutionWeights, ForeignBlocksAreRefused) {
  EXPECT_FALSE(weights_gradient_supported(
      {.images = 1, .in_channels = 8, .in_height = 8, .in_width = 8, .out_channels = 8, .block = 4}));
}

}  // namespace
