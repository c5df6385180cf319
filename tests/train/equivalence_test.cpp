#include "train/equivalence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worlds.hpp"

namespace dtrain::train {
namespace {

using ::testing::HasSubstr;
using testing::WorldSetup;

// Mirrored, with a fault in the last thing it does before an update.
class Sabotaged final : public strategy::Strategy {
 public:
  using Fault = std::function<void(const strategy::RankContext&)>;
  explicit Sabotaged(Fault fault) : fault_(std::move(fault)) {}

  std::unique_ptr<strategy::RankStrategy> attach(const strategy::RankContext& context) const override {
    return std::make_unique<SabotagedRank>(context, fault_);
  }
  int replicas_in_sync(const config::Options&, int replicas) const override { return replicas; }
  bool uses_collective() const override { return true; }
  bool spans_workers() const override { return false; }
  int max_replicas() const override { return 100; }

 private:
  class SabotagedRank final : public strategy::RankStrategy {
   public:
    SabotagedRank(const strategy::RankContext& context, Fault fault)
        : context_(context),
          fault_(std::move(fault)),
          right_(strategy::strategies().at("mirrored").value->attach(context)) {}
    void before_step() override { right_->before_step(); }
    void bucket_ready(int bucket, backend::DeviceToken ready) override {
      right_->bucket_ready(bucket, ready);
    }
    void synchronize() override {
      right_->synchronize();
      fault_(context_);
    }
    void apply(const kernels::OptimizerStep& step) override { right_->apply(step); }
    bool only_enqueues() const override { return false; }

   private:
    strategy::RankContext context_;
    Fault fault_;
    std::unique_ptr<strategy::RankStrategy> right_;
  };

  Fault fault_;
};

EquivalenceReport verify_with(WorldSetup& setup, const Sabotaged::Fault& fault) {
  setup.config.strategy = std::make_shared<Sabotaged>(fault);
  return verify_equivalence(setup.config);
}

TEST(Equivalence, HoldsForMirrored) {
  for (const auto& [replicas, accumulate] : {std::pair{1, 1}, {2, 1}, {3, 1}, {2, 3}}) {
    WorldSetup setup;
    setup.options.accumulate = accumulate;
    setup.options.optimizer = "adam";  // verified under SGD all the same
    setup.use("mirrored", replicas, 13);
    const EquivalenceReport report = verify_equivalence(setup.config);
    EXPECT_TRUE(report.expected);
    EXPECT_TRUE(report.passed());
    EXPECT_EQ(report.replicas, replicas);
    EXPECT_EQ(report.global_batch, 13);
    EXPECT_EQ(report.strategy, "mirrored");
    ASSERT_EQ(report.checks.size(), 4U);
    EXPECT_EQ(report.checks[0].name, "first gradients");
    EXPECT_EQ(report.checks[0].limit, 2e-5);
    EXPECT_EQ(report.checks[1].limit, 1e-4);
    EXPECT_EQ(report.checks[2].limit, 1e-5);
    for (const Check& check : report.checks) {
      EXPECT_TRUE(check.passed) << check.name << ' ' << check.measured;
      EXPECT_LE(check.measured, check.limit);
    }
    EXPECT_EQ(report.checks[3].measured, 1.0);
  }
}

TEST(Equivalence, AMeanInsteadOfASumIsFound) {
  WorldSetup setup(2, 12);
  const EquivalenceReport report = verify_with(setup, [](const strategy::RankContext& context) {
    for (float& gradient : context.replica->gradients()) gradient /= static_cast<float>(context.replicas);
  });
  EXPECT_FALSE(report.passed());
  EXPECT_NEAR(report.checks[0].measured, 0.5, 1e-3);
  EXPECT_FALSE(report.checks[1].passed);
  EXPECT_FALSE(report.checks[2].passed);
  EXPECT_TRUE(report.checks[3].passed);  // all ranks are wrong alike
}

TEST(Equivalence, ABucketThatOneRankMissedIsFound) {
  WorldSetup setup(2, 12);
  const EquivalenceReport report = verify_with(setup, [](const strategy::RankContext& context) {
    if (context.rank == 1) context.replica->gradients()[3] = 0.0F;
  });
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.checks[3].measured, 2.0);
  EXPECT_FALSE(report.checks[3].passed);
}

TEST(Equivalence, TrainingThatDoesNothingIsNoProof) {
  WorldSetup setup(2, 12);
  const auto nothing = [](const strategy::RankContext& context) { context.replica->clear_gradients(); };
  EXPECT_FALSE(verify_with(setup, nothing).passed());
}

TEST(Equivalence, IsNotExpectedWithBatchStatistics) {
  WorldSetup setup(2, 12, {}, testing::normalised_softmax_regression());
  EquivalenceReport report = verify_equivalence(setup.config);
  EXPECT_FALSE(report.expected);
  EXPECT_THAT(report.note, HasSubstr("not expected"));
  EXPECT_EQ(report.checks.size(), 4U);
  EXPECT_TRUE(report.passed());
  report.checks[1].passed = false;
  EXPECT_TRUE(report.passed());
  report.checks[3].passed = false;  // ranks must agree even so
  EXPECT_FALSE(report.passed());
}

// Where a last bit can make a gradient jump, a fault is what most steps have.
TEST(Equivalence, WithBatchStatisticsTheMedianStepDecides) {
  const auto verify = [](const auto& faulty) {
    WorldSetup setup(1, 12, {}, testing::normalised_softmax_regression());
    int step = 0;
    return verify_with(setup, [&](const strategy::RankContext& context) {
      if (!faulty(step++)) return;
      for (float& gradient : context.replica->gradients()) gradient *= 1.01F;
    });
  };
  const EquivalenceReport one_step = verify([](int step) { return step == 3; });
  EXPECT_TRUE(one_step.expected);
  EXPECT_TRUE(one_step.passed());
  EXPECT_THAT(one_step.note, HasSubstr("every step from the one replica's state"));
  ASSERT_EQ(one_step.checks.size(), 4U);
  EXPECT_EQ(one_step.checks[0].name, "gradients, median step");
  EXPECT_EQ(one_step.checks[1].name, "losses");
  EXPECT_EQ(one_step.checks[2].name, "weights, median step");

  const EquivalenceReport all_steps = verify([](int) { return true; });
  EXPECT_FALSE(all_steps.passed());
  EXPECT_NEAR(all_steps.checks[0].measured, 0.01, 1e-4);
  EXPECT_FALSE(all_steps.checks[2].passed);
}

TEST(Equivalence, NothingCheckedIsNotPassed) { EXPECT_FALSE(EquivalenceReport{}.passed()); }

}  // namespace
}  // namespace dtrain::train
