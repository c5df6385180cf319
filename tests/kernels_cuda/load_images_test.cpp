#include "kernels/cuda/load_images.hpp"

#include <gtest/gtest.h>

#include "device_array.hpp"

namespace dtrain::kernels::cuda {
namespace {

constexpr std::size_t plane = 1024;
constexpr std::size_t record_count = 9;

std::vector<std::uint8_t> some_records() {
  std::vector<std::uint8_t> pixels(record_count * 3 * plane);
  std::uint32_t state = 1;
  for (auto& pixel : pixels)
    pixel = static_cast<std::uint8_t>((state = state * 1664525U + 1013904223U) >> 24);
  return pixels;
}

Normalisation some_normalisation() {
  return Normalisation::from({0.49F, 0.48F, 0.45F}, {0.25F, 0.24F, 0.26F});
}

struct Images {
  std::vector<std::uint8_t> pixels = some_records();
  std::vector<std::int32_t> records, labels = {0, 11, 22, 33, 44, 55, 66, 77, 88};
  std::vector<Crop> crops;

  StepBlock step() const {
    StepBlock block;
    block.pixels = pixels.data();
    block.labels = labels.data();
    block.records = records.empty() ? nullptr : records.data();
    block.crops = crops.empty() ? nullptr : crops.data();
    return block;
  }
};

void check(const Images& images, int count, Element element, int channels, std::size_t shift) {
  const std::size_t size = static_cast<std::size_t>(count) * plane * channels;
  DeviceArray out(element, std::vector<float>(size, 5.0F), shift);
  std::vector<std::int32_t> labels(count, -1);
  const StepBlock step = images.step();
  expect_success(load_images(&step, some_normalisation(), count,
                             {out.data(), element, channels, labels.data()}, nullptr));

  std::vector<float> expected(size);
  std::vector<float> image(3 * plane);
  for (int i = 0; i < count; ++i) {
    const std::int32_t record = images.records.empty() ? i : images.records[i];
    EXPECT_EQ(labels[i], images.labels[record]);
    const Crop crop = images.crops.empty() ? Crop{} : images.crops[i];
    normalise_reference(images.pixels.data() + record * 3 * plane, image.data(), some_normalisation(), crop,
                        true);
    for (std::size_t p = 0; p < plane; ++p) {
      for (int c = 0; c < 3; ++c) expected[(i * plane + p) * channels + c] = image[p * 3 + c];
    }
  }
  const auto actual = out.values();
  expect_close(actual, expected, spacing(element) * (element == Element::f32 ? 2.0 : 0.51));
  for (std::size_t i = 0; i < size; ++i) {
    if (i % channels >= 3 && actual[i] != 0.0F) FAIL() << "padding at " << i;
  }
}

void check_all(const Images& images, int count) {
  for (const Element element : elements) {
    for (const int channels : {3, 4, 5, 8}) check(images, count, element, channels, 0);
    check(images, count, element, 3, 1);
    check(images, count, element, 8, 2);
  }
}

TEST(LoadImages, NormalisesImagesAsTheyAre) { check_all(Images(), 5); }

TEST(LoadImages, FetchesRecordsAndTheirLabels) {
  Images images;
  images.records = {8, 0, 3, 3, 7};
  check_all(images, 5);
}

TEST(LoadImages, CropsAndMirrorsInABlackBorder) {
  Images images;
  images.records = {1, 2, 3, 4, 5, 6, 7};
  images.crops = {{0, 0, true},   {4, -4, false}, {-3, 2, true},  {32, 0, false},
                  {0, -32, true}, {1, 1, true},   {-4, -4, false}};
  check_all(images, 7);
}

TEST(LoadImages, TheBorderIsBlackBeforeNormalising) {
  Images images;
  images.crops = {{32, 0, false}};
  DeviceArray out(Element::f32, std::vector<float>(3 * plane));
  const StepBlock step = images.step();
  expect_success(
      load_images(&step, some_normalisation(), 1, {out.data(), Element::f32, 3, nullptr}, nullptr));
  EXPECT_EQ(out.values()[1], -0.48F / 0.24F);
}

TEST(LoadImages, TakesFloatsAsTheyAre) {
  std::vector<float> floats(2 * 3 * plane);
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i % 1009) / 64.0F - 5.0F;
  const std::int32_t labels[] = {4, 9};
  StepBlock step;
  step.images = floats.data();
  step.labels = labels;
  for (const Element element : elements) {
    for (const int channels : {3, 4, 5, 8}) {
      DeviceArray out(element, std::vector<float>(2 * plane * static_cast<std::size_t>(channels), 5.0F));
      std::int32_t taken[2] = {};
      expect_success(
          load_images(&step, some_normalisation(), 2, {out.data(), element, channels, taken}, nullptr));
      EXPECT_EQ(taken[1], 9);
      const auto actual = out.values();
      for (std::size_t i = 0; i < actual.size(); ++i) {
        const std::size_t c = i % static_cast<std::size_t>(channels);
        const std::size_t pixel = i / static_cast<std::size_t>(channels);
        const std::size_t from = (pixel / plane * 3 + c) * plane + pixel % plane;
        ASSERT_EQ(actual[i], c < 3 ? round_to_reference(floats[from], element) : 0.0F) << i;
      }
    }
  }
}

TEST(LoadImages, NoImagesAreNoWork) {
  EXPECT_EQ(load_images(nullptr, some_normalisation(), 0, {}, nullptr), cudaSuccess);
  EXPECT_EQ(load_images(nullptr, some_normalisation(), 1, {nullptr, Element::f32, 2, nullptr}, nullptr),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace dtrain::kernels::cuda
