#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/zoo.hpp"
#include "worlds.hpp"

// Where several ranks hold the same part of a model, a difference between them is seen.
namespace dtrain::train {
namespace {

using testing::WorldSetup;

// Another strategy, with a weight of one rank changed before training.
class Drifting final : public strategy::Strategy {
 public:
  Drifting(const std::string& strategy, int rank, std::size_t weight)
      : right_(strategy::strategies().at(strategy).value), rank_(rank), weight_(weight) {}

  std::unique_ptr<strategy::RankStrategy> attach(const strategy::RankContext& context) const override {
    if (context.rank == rank_) context.replica->weights()[weight_] += 0.01F;
    return right_->attach(context);
  }
  std::shared_ptr<strategy::Shared> share(const strategy::RunContext& run) const override {
    return right_->share(run);
  }
  strategy::Assignment assign(const strategy::AssignmentContext& context) const override {
    return right_->assign(context);
  }
  int replicas_in_sync(const config::Options& options, int replicas) const override {
    return right_->replicas_in_sync(options, replicas);
  }
  bool uses_collective() const override { return right_->uses_collective(); }
  bool spans_workers() const override { return right_->spans_workers(); }
  int max_replicas() const override { return right_->max_replicas(); }

 private:
  std::shared_ptr<const strategy::Strategy> right_;
  int rank_;
  std::size_t weight_;
};

// A convolution of three channels: whole on every rank where there are more of them.
model::Model narrow() {
  using namespace model;
  return build("narrow", {3, 32, 32}, 10,
               {Layer{"conv", Convolution{.out_channels = 3}, {image_input}, {}, {}},
                Layer{"pool", MaxPool{6}, {0}, {}, {}}, Layer{"scores", Dense{10}, {1}, {}, {}}});
}

bool agree(const std::string& strategy, int replicas, int drifting, std::size_t weight = 0) {
  WorldSetup setup(1, 12, {}, narrow());
  setup.config.backend = backend::backends().at("cpu").value({});
  setup.options.pipeline_stages = 2;
  setup.use(strategy, replicas, 12);
  if (drifting >= 0) setup.config.strategy = std::make_shared<Drifting>(strategy, drifting, weight);
  World world(setup.config);
  world.run(2);
  measure::RunSamples samples;
  samples.measured_steps = 2;
  world.describe(samples);
  const auto hashes = world.weight_hashes();
  const bool alike = std::ranges::all_of(hashes, [&](const auto& hash) { return hash == hashes[0]; });
  EXPECT_EQ(samples.weights_agree, alike);
  return alike;
}

TEST(Agreement, OfPipelinesSideBySide) {
  EXPECT_TRUE(agree("pipeline", 4, -1));
  EXPECT_FALSE(agree("pipeline", 4, 2));
  EXPECT_FALSE(agree("pipeline", 4, 1));
}

TEST(Agreement, OfLayersThatEveryRankHoldsWhole) {
  EXPECT_TRUE(agree("tensor", 4, -1));
  EXPECT_FALSE(agree("tensor", 4, 3));
  EXPECT_FALSE(agree("tensor", 4, 0));
}

TEST(Agreement, OfReplicas) {
  EXPECT_TRUE(agree("mirrored", 3, -1));
  EXPECT_FALSE(agree("mirrored", 3, 2));
}

}  // namespace
}  // namespace dtrain::train
