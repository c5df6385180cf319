#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synthetic.hpp"

namespace dtrain::predict {
namespace {

using testing::HasSubstr;

const Limit& limit(const Prediction& prediction, const std::string& part) {
  for (const auto& each : prediction.limits) {
    if (each.part == part) return each;
  }
  throw std::runtime_error("no limit of " + part);
}

TEST(Limits, UnderStrongScalingTellSharedCoresFromFixedCosts) {
  Truth truth{.alpha = 0.0,
              .beta = 1e-15,
              .law = shared_memory(),
              .workers = false,
              .cores = 16,
              .scaling = config::Scaling::strong,
              .batch = 256};
  const Prediction shared = predict(make_result(truth, {1, 2, 4, 8}), ask({16, 64}));
  EXPECT_EQ(shared.limits.front().part, "replicas that share cores");
  EXPECT_EQ(shared.limits.front().tenth, 18);      // 1 - 16/18 = 11.1 %; 1 - 16/17 = 5.9 %
  EXPECT_EQ(shared.limits.front().overtakes, 31);  // 9 images x (31/16 - 1) = 8.4; useful are 256/31 = 8.3
  EXPECT_FALSE(limit(shared, "fixed costs of a step").tenth);
  EXPECT_THAT(shared.verdict, HasSubstr("What limits first: replicas that share cores"));
  EXPECT_EQ(shared.estimates.front().limit, "");
  EXPECT_EQ(shared.estimates.back().limit, "replicas that share cores");

  truth.fixed = 1 * ms;  // of 31; with 5 replicas 0.8 ms of 7 above the useful 6.2
  truth.cores = 256;
  const Prediction fixed = predict(make_result(truth, {1, 2, 4, 8}), ask({64}));
  EXPECT_EQ(fixed.limits.front().part, "fixed costs of a step");
  EXPECT_EQ(fixed.limits.front().tenth, 5);
  EXPECT_FALSE(limit(fixed, "replicas that share cores").tenth);
  EXPECT_EQ(fixed.estimates.back().limit, "fixed costs of a step");
}

TEST(Limits, UnderStrongScalingEndWithTheImages) {
  const Truth truth{.alpha = 0.0, .beta = 1e-15, .scaling = config::Scaling::strong, .batch = 64};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}), ask({16, 48}));
  EXPECT_EQ(prediction.limits_up_to, 64);
  EXPECT_THAT(prediction.verdict, HasSubstr("up to N = 64."));
  EXPECT_EQ(prediction.estimates.front().limit, "");
  EXPECT_EQ(prediction.estimates.back().limit, "a batch that does not divide evenly");  // 2 images of 1.33
}

TEST(Limits, ThatComeAtTheSameNAreSortedBySize) {
  const Truth truth{.alpha = 0.0, .beta = 5 * ms / cnn_bytes, .step_noise = 0.5};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4}, 8), ask({8}));
  ASSERT_EQ(limit(prediction, "communication").tenth, 2);  // 5 ms of 43
  ASSERT_EQ(limit(prediction, "stragglers").tenth, 2);     // 0.56 x 0.5 x 30 ms
  EXPECT_EQ(prediction.limits.front().part, "stragglers");
  EXPECT_EQ(prediction.estimates.back().limit, "stragglers");
  EXPECT_THAT(prediction.verdict, HasSubstr("What limits first: stragglers"));
}

TEST(Limits, SayWhatTakesMostAtTheLargestNWhereThatIsAnother) {
  const Truth truth{.alpha = 0.2 * ms, .beta = 1e-12, .step_noise = 0.25};
  const Prediction prediction = predict(make_result(truth, {1, 2, 4, 8}, 8), ask({8, 4096}));
  EXPECT_EQ(prediction.limits.front().part, "stragglers");
  EXPECT_EQ(prediction.estimates.back().limit, "communication");
  EXPECT_THAT(prediction.verdict, HasSubstr("At N = 4,096 what takes most is communication."));
}

}  // namespace
}  // namespace dtrain::predict
