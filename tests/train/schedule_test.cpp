#include "train/schedule.hpp"

#include <gtest/gtest.h>

namespace dtrain::train {
namespace {

std::vector<double> rates(const std::string& name, const ScheduleConfig& config, int steps) {
  const auto schedule = schedules().at(name).value(config);
  std::vector<double> out;
  for (int step = 0; step < steps; ++step) out.push_back(schedule->learning_rate(step));
  return out;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-12) << "step " << i;
}

TEST(Schedule, ConstantWarmsUpOnAStraightLine) {
  expect_near(rates("constant", {.peak = 0.8}, 3), {0.8, 0.8, 0.8});
  expect_near(rates("constant", {.peak = 0.8, .warmup_steps = 4}, 6), {0.2, 0.4, 0.6, 0.8, 0.8, 0.8});
}

TEST(Schedule, CosineFallsToZero) {
  expect_near(rates("cosine", {.peak = 2.0, .total_steps = 4}, 7),
              {2.0, 1.0 + std::sqrt(0.5), 1.0, 1.0 - std::sqrt(0.5), 0.0, 0.0, 0.0});
}

TEST(Schedule, CosineBeginsAfterWarmUp) {
  expect_near(rates("cosine", {.peak = 2.0, .total_steps = 4, .warmup_steps = 2}, 6),
              {1.0, 2.0, 2.0, 1.0, 0.0, 0.0});
}

TEST(Schedule, OneCycleRisesOverThirtyPercent) {
  expect_near(rates("one_cycle", {.peak = 0.6, .total_steps = 10}, 12),
              {0.2, 0.4, 0.6, 0.6, 0.6 * 6 / 7, 0.6 * 5 / 7, 0.6 * 4 / 7, 0.6 * 3 / 7, 0.6 * 2 / 7, 0.6 / 7,
               0.0, 0.0});
}

TEST(Schedule, OneCycleRisesOverWarmUpWhereGiven) {
  expect_near(rates("one_cycle", {.peak = 0.6, .total_steps = 4, .warmup_steps = 2}, 5),
              {0.3, 0.6, 0.6, 0.3, 0.0});
}

TEST(Schedule, HoldsThePeakWhenTheEndIsNotKnown) {
  for (const char* name : {"constant", "cosine", "one_cycle"}) {
    expect_near(rates(name, {.peak = 0.5, .warmup_steps = 2}, 4), {0.25, 0.5, 0.5, 0.5});
    EXPECT_EQ(schedules().at(name).value({.peak = 0.5})->learning_rate(1'000'000'000), 0.5) << name;
  }
}

TEST(Schedule, MoreWarmUpThanStepsIsNoDivisionByZero) {
  expect_near(rates("cosine", {.peak = 1.0, .total_steps = 2, .warmup_steps = 4}, 5),
              {0.25, 0.5, 0.75, 1.0, 0.0});
  expect_near(rates("one_cycle", {.peak = 1.0, .total_steps = 1}, 2), {1.0, 0.0});
}

}  // namespace
}  // namespace dtrain::train
