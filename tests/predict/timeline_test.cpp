#include "predict/timeline.hpp"

#include <gtest/gtest.h>

#include "model/zoo.hpp"

namespace dtrain::predict {
namespace {

TEST(Timeline, BucketsHoldTheWholeModelAndBecomeReadyInOrder) {
  const model::Model model = model::zoo().at("resnet9").value();
  const auto buckets = buckets_of(model, 4.0);
  ASSERT_GT(buckets.size(), 3U);
  double bytes = 0.0;
  double ready = 0.0;
  for (const auto& bucket : buckets) {
    bytes += bucket.bytes;
    EXPECT_GE(bucket.ready, ready);
    ready = bucket.ready;
  }
  EXPECT_EQ(bytes, 4.0 * static_cast<double>(model.parameter_count));
  EXPECT_DOUBLE_EQ(ready, 1.0);
  EXPECT_LT(buckets.front().ready, 0.5);
}

TEST(Timeline, OfASmallModelIsOneBucket) {
  const auto buckets = buckets_of(model::zoo().at("cnn").value(), 25.0);
  ASSERT_EQ(buckets.size(), 1U);
  EXPECT_EQ(buckets.front().bytes, 490'280.0);
}

TEST(Timeline, HidesWhatFitsBehindTheRestOfBackward) {
  const std::vector<Bucket> buckets{{1.0, 0.25}, {1.0, 0.5}, {1.0, 1.0}};
  EXPECT_NEAR(exposed(buckets, {0.1, 0.1, 0.1}, 1.0), 0.1, 1e-12);  // the last one never hides
  EXPECT_DOUBLE_EQ(exposed(buckets, {0.5, 0.5, 0.1}, 1.0), 0.35);   // 0.25 .. 0.75 .. 1.25 .. 1.35
  EXPECT_DOUBLE_EQ(exposed(buckets, {0.5, 0.5, 0.1}, 0.0), 1.1);
  EXPECT_DOUBLE_EQ(exposed(one_bucket(8.0), {0.3}, 5.0), 0.3);
}

TEST(Timeline, KnowsFromWhichBucketOnTheLineIsBusy) {
  const std::vector<Bucket> buckets{{1.0, 0.25}, {1.0, 0.5}, {1.0, 1.0}};
  EXPECT_EQ(first_of_queue(buckets, {0.1, 0.1, 0.1}, 1.0), 2U);
  EXPECT_EQ(first_of_queue(buckets, {0.1, 0.6, 0.1}, 1.0), 1U);
  EXPECT_EQ(first_of_queue(buckets, {0.5, 0.5, 0.1}, 1.0), 0U);
}

}  // namespace
}  // namespace dtrain::predict
