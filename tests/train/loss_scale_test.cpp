#include "train/loss_scale.hpp"

#include <gtest/gtest.h>

namespace dtrain::train {
namespace {

TEST(LossScale, HalvesOnOverflowAndForgetsGoodSteps) {
  LossScale scale;
  EXPECT_EQ(scale.scale, 65536.0);
  for (int i = 0; i < 5; ++i) scale.step_succeeded();
  EXPECT_TRUE(scale.step_overflowed());
  EXPECT_EQ(scale.scale, 32768.0);
  EXPECT_EQ(scale.good_steps, 0);
}

TEST(LossScale, DoublesAfterTwoThousandGoodSteps) {
  LossScale scale;
  for (int i = 0; i < 1999; ++i) scale.step_succeeded();
  EXPECT_EQ(scale.scale, 65536.0);
  scale.step_succeeded();
  EXPECT_EQ(scale.scale, 131072.0);
  EXPECT_EQ(scale.good_steps, 0);
}

TEST(LossScale, StopsGrowingAtItsCeiling) {
  LossScale scale{LossScale::ceiling, LossScale::growth_interval - 1};
  scale.step_succeeded();
  EXPECT_EQ(scale.scale, LossScale::ceiling);
}

TEST(LossScale, SaysWhenItIsAtItsFloor) {
  LossScale scale;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(scale.step_overflowed()) << i;
  EXPECT_EQ(scale.scale, 1.0);
  EXPECT_FALSE(scale.step_overflowed());
  EXPECT_EQ(scale.scale, 1.0);
}

}  // namespace
}  // namespace dtrain::train
