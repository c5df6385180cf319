#include "kernels/normalise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.hpp"
#include "datasets/pipeline.hpp"

namespace dtrain::kernels {
namespace {

constexpr int values = 3072;

std::vector<std::uint8_t> random_image(std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint8_t> image(values);
  for (auto& byte : image) byte = static_cast<std::uint8_t>(random.below(256));
  return image;
}

Normalisation usual() { return Normalisation::from(datasets::channel_mean, datasets::channel_deviation); }

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (int i = 0; i < values; ++i) ASSERT_NEAR(actual[i], expected[i], 5e-7F) << "at " << i;
}

TEST(Normalise, SubtractsTheMeanAndDividesByTheDeviation) {
  std::vector<std::uint8_t> image(values, 0);
  image[0] = 255;
  image[1024] = 128;
  std::vector<float> out(values);
  normalise_nchw(image.data(), out.data(), usual());
  EXPECT_NEAR(out[0], (1.0 - 0.4914) / 0.2470, 1e-6);
  EXPECT_NEAR(out[1024], (128.0 / 255.0 - 0.4822) / 0.2435, 1e-6);
  EXPECT_NEAR(out[2048], (0.0 - 0.4465) / 0.2616, 1e-6);
}

TEST(Normalise, PlanesMatchTheReference) {
  const auto image = random_image(1);
  std::vector<float> out(values);
  std::vector<float> expected(values);
  normalise_nchw(image.data(), out.data(), usual());
  normalise_reference(image.data(), expected.data(), usual(), {}, false);
  expect_close(out, expected);
}

TEST(Normalise, InterleavedPixelsMatchTheReference) {
  const auto image = random_image(2);
  std::vector<float> out(values);
  std::vector<float> expected(values);
  normalise_nhwc(image.data(), out.data(), usual());
  normalise_reference(image.data(), expected.data(), usual(), {}, true);
  expect_close(out, expected);
  EXPECT_NEAR(out[4], (image[1025] / 255.0 - 0.4822) / 0.2435, 1e-6);
}

TEST(Normalise, BothLayoutsGiveTheSameValues) {
  const auto image = random_image(3);
  std::vector<float> planes(values);
  std::vector<float> pixels(values);
  normalise_nchw(image.data(), planes.data(), usual());
  normalise_nhwc(image.data(), pixels.data(), usual());
  for (int i = 0; i < 1024; ++i) {
    for (int c = 0; c < 3; ++c) ASSERT_FLOAT_EQ(planes[c * 1024 + i], pixels[3 * i + c]);
  }
}

TEST(Normalise, EveryCropMatchesTheReference) {
  const auto image = random_image(4);
  std::vector<std::uint8_t> cropped(values);
  std::vector<float> out(values);
  std::vector<float> expected(values);
  const Normalisation plain;
  for (const bool flip : {false, true}) {
    for (int y = -5; y <= 5; ++y) {
      for (int x = -5; x <= 5; ++x) {
        crop_and_flip(image.data(), cropped.data(), {x, y, flip});
        normalise_nchw(cropped.data(), out.data(), plain);
        normalise_reference(image.data(), expected.data(), plain, {x, y, flip}, false);
        ASSERT_EQ(out, expected) << x << ' ' << y << ' ' << flip;
      }
    }
  }
}

TEST(Normalise, WindowsAtTheFarthestAreBlack) {
  const auto image = random_image(5);
  std::vector<std::uint8_t> cropped(values, 1);
  for (const Crop crop : {Crop{32, 0, false}, Crop{-32, 0, true}, Crop{0, 32, false}, Crop{0, -32, true}}) {
    crop_and_flip(image.data(), cropped.data(), crop);
    ASSERT_EQ(cropped, std::vector<std::uint8_t>(values, 0));
  }
}

TEST(Normalise, FlipMirrorsRows) {
  const auto image = random_image(6);
  std::vector<std::uint8_t> flipped(values);
  crop_and_flip(image.data(), flipped.data(), {0, 0, true});
  EXPECT_EQ(flipped[0], image[31]);
  EXPECT_EQ(flipped[31], image[0]);
  EXPECT_EQ(flipped[2 * 1024 + 5 * 32 + 30], image[2 * 1024 + 5 * 32 + 1]);
}

TEST(Normalise, CropMovesTheWindowDownAndRight) {
  const auto image = random_image(7);
  std::vector<std::uint8_t> cropped(values);
  crop_and_flip(image.data(), cropped.data(), {4, 2, false});
  EXPECT_EQ(cropped[0], image[2 * 32 + 4]);
  EXPECT_EQ(cropped[31], 0);
  EXPECT_EQ(cropped[31 * 32], 0);
}

}  // namespace
}  // namespace dtrain::kernels
