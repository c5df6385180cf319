#include "datasets/pipeline.hpp"

#include <gmock/gmock.h>

#include "datasets/augment.hpp"
#include "datasets/order.hpp"
#include "fixtures.hpp"
#include "kernels/normalise.hpp"

namespace dtrain::datasets {
namespace {

std::shared_ptr<const Dataset> numbered(std::size_t size) { return std::make_shared<NumberedDataset>(size); }

// Image numbers of one step of one rank, over its micro-batches. NumberedDataset's labels are image numbers.
std::vector<int> take_step(Pipeline& pipeline, int* step_images = nullptr, bool* last_of_epoch = nullptr) {
  std::vector<int> images;
  while (true) {
    const MicroBatch& batch = pipeline.next();
    images.insert(images.end(), batch.labels, batch.labels + batch.count);
    if (step_images != nullptr) *step_images = batch.step_images;
    if (last_of_epoch != nullptr) *last_of_epoch = batch.last_of_epoch;
    if (batch.last_of_step) return images;
  }
}

std::vector<float> expected_image(const Dataset& dataset, std::uint32_t image, kernels::Crop crop,
                                  bool channels_last) {
  std::vector<float> out(pixels_per_image);
  kernels::normalise_reference(dataset.pixels(image).data(), out.data(),
                               kernels::Normalisation::from(channel_mean, channel_deviation), crop,
                               channels_last);
  return out;
}

void expect_image(const float* actual, const std::vector<float>& expected) {
  for (std::size_t p = 0; p < pixels_per_image; ++p) ASSERT_NEAR(actual[p], expected[p], 5e-7F) << "at " << p;
}

TEST(Pipeline, StepsFollowTheOrderOfEachEpoch) {
  PipelineConfig config{.dataset = numbered(50), .seed = 8, .shuffle = 20, .global_batch = 16};
  const auto pipeline = make_pipeline(config);
  EXPECT_EQ(pipeline->steps_per_epoch(), 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto order = epoch_order(50, 8, epoch, 20);
    for (int step = 0; step < 3; ++step) {
      const MicroBatch& batch = pipeline->next();
      ASSERT_EQ(batch.count, 16);
      EXPECT_EQ(batch.step_images, 16);
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_TRUE(batch.last_of_step);
      EXPECT_EQ(batch.last_of_epoch, step == 2);
      for (int i = 0; i < 16; ++i) EXPECT_EQ(batch.labels[i], static_cast<int>(order[step * 16 + i]));
    }
  }
}

struct Division {
  bool keep;
  int accumulate;
  int prefetch;
};

class AllDivisions : public testing::TestWithParam<Division> {};

TEST_P(AllDivisions, ReplicasSeeWhatOneSeesStepByStep) {
  const auto dataset = numbered(47);
  for (const int global_batch : {1, 4, 7, 12, 47}) {
    PipelineConfig config{.dataset = dataset,
                          .seed = 5,
                          .shuffle = 30,
                          .global_batch = global_batch,
                          .keep_last = GetParam().keep,
                          .prefetch = GetParam().prefetch};
    const auto one = make_pipeline(config);
    for (int replicas = 1; replicas <= 5; ++replicas) {
      one->seek(0);
      config.replicas = replicas;
      config.accumulate = GetParam().accumulate;
      std::vector<std::unique_ptr<Pipeline>> many;
      for (config.rank = 0; config.rank < replicas; ++config.rank) many.push_back(make_pipeline(config));
      for (int step = 0; step < 2 * one->steps_per_epoch() + 1; ++step) {
        int one_images = 0;
        bool one_last = false;
        const std::vector<int> expected = take_step(*one, &one_images, &one_last);
        EXPECT_EQ(one_images, static_cast<int>(expected.size()));
        std::vector<int> together;
        std::vector<std::size_t> shares;
        for (const auto& replica : many) {
          int images = 0;
          bool last = false;
          const std::vector<int> share = take_step(*replica, &images, &last);
          EXPECT_EQ(images, one_images);
          EXPECT_EQ(last, one_last);
          shares.push_back(share.size());
          together.insert(together.end(), share.begin(), share.end());
        }
        ASSERT_EQ(together, expected)
            << "batch " << global_batch << ", replicas " << replicas << ", step " << step;
        EXPECT_LE(shares.front() - shares.back(), 1U);
        EXPECT_TRUE(std::is_sorted(shares.rbegin(), shares.rend()));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pipeline, AllDivisions,
                         testing::Values(Division{false, 1, 0}, Division{false, 2, 0}, Division{false, 3, 2},
                                         Division{true, 1, 2}, Division{true, 2, 0}, Division{true, 3, 1}));

TEST(Pipeline, KeptRemainderLeavesSomeRanksWithoutImages) {
  PipelineConfig config{
      .dataset = numbered(9), .global_batch = 8, .keep_last = true, .rank = 1, .replicas = 2};
  const auto pipeline = make_pipeline(config);
  EXPECT_EQ(pipeline->next().count, 4);
  const MicroBatch& last = pipeline->next();
  EXPECT_EQ(last.count, 0);
  EXPECT_EQ(last.step_images, 1);
  EXPECT_TRUE(last.last_of_epoch);
}

class BothLayouts : public testing::TestWithParam<std::tuple<BatchContent, bool, int>> {};

TEST_P(BothLayouts, ImagesAreNormalisedAndAugmentedAsTheReferenceDoes) {
  const auto [layout, augment, prefetch] = GetParam();
  const auto dataset = numbered(20);
  const auto pipeline = make_pipeline({.dataset = dataset,
                                       .seed = 2,
                                       .shuffle = 20,
                                       .global_batch = 7,
                                       .augment = augment,
                                       .content = layout,
                                       .prefetch = prefetch});
  for (int step = 0; step < 5; ++step) {
    const MicroBatch& batch = pipeline->next();
    for (int i = 0; i < batch.count; ++i) {
      const auto image = static_cast<std::uint32_t>(batch.labels[i]);
      const kernels::Crop crop = augment ? augmentation(2, batch.epoch, image) : kernels::Crop{};
      expect_image(batch.images + static_cast<std::size_t>(i) * pixels_per_image,
                   expected_image(*dataset, image, crop, layout == BatchContent::nhwc));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pipeline, BothLayouts,
                         testing::Combine(testing::Values(BatchContent::nchw, BatchContent::nhwc),
                                          testing::Bool(), testing::Values(0, 2)));

// Bytes and record numbers, with the crops beside them, are the images that floats would have been.
TEST(Pipeline, BytesAndRecordsAreTheSameImages) {
  const auto dataset = numbered(20);
  for (const bool augment : {false, true}) {
    PipelineConfig config{
        .dataset = dataset, .seed = 2, .shuffle = 20, .global_batch = 7, .augment = augment, .prefetch = 0};
    config.content = BatchContent::bytes;
    const auto bytes = make_pipeline(config);
    config.content = BatchContent::records;
    const auto records = make_pipeline(config);
    config.content = BatchContent::nchw;
    const auto floats = make_pipeline(config);
    for (int step = 0; step < 5; ++step) {
      const MicroBatch& by_bytes = bytes->next();
      const MicroBatch& by_record = records->next();
      const MicroBatch& by_float = floats->next();
      ASSERT_EQ(by_bytes.count, by_float.count);
      ASSERT_EQ(by_record.count, by_float.count);
      EXPECT_EQ(by_bytes.images, nullptr);
      EXPECT_EQ(by_record.pixels, nullptr);
      EXPECT_EQ(by_bytes.records, nullptr);
      EXPECT_EQ(by_bytes.crops != nullptr, augment);
      EXPECT_EQ(by_record.crops != nullptr, augment);
      for (int i = 0; i < by_float.count; ++i) {
        const auto image = static_cast<std::uint32_t>(by_float.labels[i]);  // numbered
        EXPECT_EQ(by_record.records[i], by_float.labels[i]);
        EXPECT_EQ(by_bytes.labels[i], by_float.labels[i]);
        const auto pixels = dataset->pixels(image);
        EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), by_bytes.pixels + i * pixels_per_image));
        if (!augment) continue;
        const kernels::Crop want = augmentation(2, by_float.epoch, image);
        for (const kernels::Crop* crops : {by_bytes.crops, by_record.crops}) {
          EXPECT_EQ(crops[i].x, want.x);
          EXPECT_EQ(crops[i].y, want.y);
          EXPECT_EQ(crops[i].flip, want.flip);
        }
      }
    }
  }
}

TEST(Pipeline, SaysWhetherABatchIsThere) {
  const auto direct = make_pipeline({.dataset = numbered(20), .global_batch = 5, .prefetch = 0});
  EXPECT_TRUE(direct->ready());
  const auto ahead = make_pipeline({.dataset = numbered(20), .global_batch = 5, .prefetch = 1});
  for (int step = 0; step < 20; ++step) {
    while (!ahead->ready()) std::this_thread::yield();
    ahead->next();
  }
}

TEST(Pipeline, AugmentationDoesNotDependOnReplicas) {
  const auto dataset = numbered(24);
  PipelineConfig config{.dataset = dataset, .global_batch = 8, .augment = true, .prefetch = 0};
  const auto one = make_pipeline(config);
  config.replicas = 2;
  const auto first = make_pipeline(config);
  config.rank = 1;
  const auto second = make_pipeline(config);
  for (int step = 0; step < 6; ++step) {
    const MicroBatch& whole = one->next();
    const MicroBatch& left = first->next();
    const MicroBatch& right = second->next();
    ASSERT_EQ(left.count + right.count, whole.count);
    const std::size_t half = static_cast<std::size_t>(left.count) * pixels_per_image;
    EXPECT_TRUE(std::equal(left.images, left.images + half, whole.images));
    EXPECT_TRUE(std::equal(right.images, right.images + half, whole.images + half));
  }
}

TEST(Augmentation, CoversAllPlacesAndBothDirections) {
  std::vector<int> x(9);
  std::vector<int> y(9);
  int flips = 0;
  constexpr int count = 9000;
  for (std::uint32_t image = 0; image < count; ++image) {
    const kernels::Crop crop = augmentation(1, 2, image);
    ++x.at(static_cast<std::size_t>(crop.x + 4));
    ++y.at(static_cast<std::size_t>(crop.y + 4));
    flips += crop.flip ? 1 : 0;
  }
  for (const int places : x) EXPECT_NEAR(places, count / 9, 200);
  for (const int places : y) EXPECT_NEAR(places, count / 9, 200);
  EXPECT_NEAR(flips, count / 2, 300);
}

TEST(Augmentation, ChangesWithTheEpoch) {
  int same = 0;
  for (std::uint32_t image = 0; image < 1000; ++image) {
    const kernels::Crop a = augmentation(1, 0, image);
    const kernels::Crop b = augmentation(1, 1, image);
    same += a.x == b.x && a.y == b.y && a.flip == b.flip ? 1 : 0;
  }
  EXPECT_LT(same, 30);
}

class Seeking : public testing::TestWithParam<int> {};

TEST_P(Seeking, IsTheSameAsRunning) {
  const PipelineConfig config{.dataset = numbered(31),
                              .seed = 4,
                              .shuffle = 10,
                              .global_batch = 6,
                              .keep_last = true,
                              .rank = 1,
                              .replicas = 2,
                              .accumulate = 2,
                              .augment = true,
                              .prefetch = GetParam()};
  const auto running = make_pipeline(config);
  std::vector<std::vector<int>> steps;
  std::vector<std::vector<float>> first_images;
  for (int step = 0; step < 15; ++step) {
    const MicroBatch& batch = running->next();
    std::vector<int> images(batch.labels, batch.labels + batch.count);
    first_images.emplace_back(batch.images, batch.images + pixels_per_image * batch.count);
    ASSERT_FALSE(batch.last_of_step);
    const auto rest = take_step(*running);
    images.insert(images.end(), rest.begin(), rest.end());
    steps.push_back(images);
  }
  const auto seeking = make_pipeline(config);
  for (const int step : {7, 0, 14, 5, 6, 12}) {
    seeking->seek(step);
    const MicroBatch& batch = seeking->next();
    EXPECT_TRUE(std::equal(first_images[step].begin(), first_images[step].end(), batch.images));
    std::vector<int> images(batch.labels, batch.labels + batch.count);
    const auto rest = take_step(*seeking);
    images.insert(images.end(), rest.begin(), rest.end());
    EXPECT_EQ(images, steps[step]) << step;
    if (step + 1 < 15) {
      EXPECT_EQ(take_step(*seeking), steps[step + 1]) << step;
    }
  }
}

TEST_P(Seeking, InTheMiddleOfAStepStartsAWholeOne) {
  const auto pipeline =
      make_pipeline({.dataset = numbered(20), .global_batch = 6, .accumulate = 3, .prefetch = GetParam()});
  const std::vector<int> expected = take_step(*pipeline);
  pipeline->next();
  pipeline->seek(0);
  EXPECT_EQ(take_step(*pipeline), expected);
}

TEST_P(Seeking, FarAhead) {
  const PipelineConfig config{.dataset = numbered(10), .global_batch = 5, .prefetch = GetParam()};
  const auto pipeline = make_pipeline(config);
  pipeline->seek(2'000'001);
  const MicroBatch& batch = pipeline->next();
  EXPECT_EQ(batch.epoch, 1'000'000);
  const auto order = epoch_order(10, 0, 1'000'000, 10000);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(batch.labels[i], static_cast<int>(order[5 + i]));
}

INSTANTIATE_TEST_SUITE_P(Pipeline, Seeking, testing::Values(0, 1, 3));

TEST(Pipeline, BatchLargerThanTheSetSaysWhatFits) {
  PipelineConfig config{.dataset = numbered(20), .global_batch = 21};
  const Error error = error_of([&] { make_pipeline(config); });
  EXPECT_EQ(error.category(), ErrorCategory::usage);
  EXPECT_THAT(error.what(),
              testing::AllOf(testing::HasSubstr("21"), testing::HasSubstr("20 images of numbered")));
  EXPECT_THAT(error.advice(), testing::HasSubstr("largest global batch that fits is 20"));
  config.keep_last = true;
  EXPECT_EQ(make_pipeline(config)->next().count, 20);
}

TEST(Pipeline, NumbersThatMakeNoSenseAreRefused) {
  const auto refused = [](PipelineConfig config) {
    config.dataset = numbered(20);
    return error_of([&] { make_pipeline(config); }).category() == ErrorCategory::usage;
  };
  EXPECT_TRUE(refused({.global_batch = 0}));
  EXPECT_TRUE(refused({.global_batch = -4}));
  EXPECT_TRUE(refused({.global_batch = 4, .rank = 2, .replicas = 2}));
  EXPECT_TRUE(refused({.global_batch = 4, .rank = -1}));
  EXPECT_TRUE(refused({.global_batch = 4, .replicas = 0}));
  EXPECT_TRUE(refused({.global_batch = 4, .accumulate = 0}));
  EXPECT_TRUE(refused({.global_batch = 4, .prefetch = -1}));
}

}  // namespace
}  // namespace dtrain::datasets
