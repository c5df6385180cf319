#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "base/error.hpp"
#include "fake_replica.hpp"
#include "model/zoo.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::strategy {
namespace {

using testing::FakeReplica;
using ::testing::HasSubstr;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

const Strategy& tensor() { return *strategies().at("tensor").value; }

config::RunPlan plan_for(int replicas, int global_batch) {
  config::RunPlan plan;
  plan.replicas = replicas;
  plan.global_batch = global_batch;
  for (int rank = 0; rank < replicas; ++rank) {
    plan.replica_batch.push_back(config::share_of(global_batch, rank, replicas));
  }
  return plan;
}

class TensorStrategy : public ::testing::Test {
 protected:
  Assignment assign(int rank, int replicas, int global_batch) {
    plan_ = plan_for(replicas, global_batch);
    return tensor().assign({.model = &model_, .options = &options_, .plan = &plan_, .rank = rank});
  }
  void expect_refused(const std::string& what, const std::string& advice) {
    try {
      tensor().check(options_);
      ADD_FAILURE() << "not refused: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage) << what;
      EXPECT_THAT(error.what(), HasSubstr(what + " does not go with --strategy tensor"));
      EXPECT_THAT(error.advice(), HasSubstr(advice)) << what;
    }
    options_ = {};
  }

  model::Model model_ = model::zoo().at("cnn").value();
  config::Options options_;
  config::RunPlan plan_;
};

TEST_F(TensorStrategy, EveryRankTakesAllImagesAndASliceOfTheModel) {
  options_.accumulate = 2;
  for (int rank = 0; rank < 3; ++rank) {
    const Assignment assignment = assign(rank, 3, 33);
    ASSERT_TRUE(assignment.part.has_value());
    EXPECT_EQ(assignment.part->model->layers[0].output.channels, rank == 2 ? 10 : 11);
    EXPECT_EQ(assignment.share, 0);
    EXPECT_EQ(assignment.shares, 1);
    EXPECT_EQ(assignment.max_batch, 17);
    EXPECT_EQ(assignment.counts, rank == 0);
    EXPECT_TRUE(assignment.contributes);
  }
  const Assignment alone = assign(0, 1, 8);
  EXPECT_FALSE(alone.part.has_value());
  EXPECT_TRUE(alone.counts);
  EXPECT_EQ(alone.max_batch, 4);
}

TEST_F(TensorStrategy, NeedsALayerToSplit) {
  EXPECT_NO_THROW(assign(0, 64, 64));
  try {
    assign(0, 65, 65);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("over 65 devices, and no layer of cnn has more than 64"));
    EXPECT_THAT(error.advice(), HasSubstr("--gpus 64"));
  }
}

TEST_F(TensorStrategy, SaysWhatItNeeds) {
  EXPECT_TRUE(tensor().uses_collective());
  EXPECT_TRUE(tensor().spans_workers());
  EXPECT_TRUE(tensor().runs_on("cpu"));
  EXPECT_FALSE(tensor().runs_on("cuda"));
  EXPECT_FALSE(tensor().runs_on("tpu"));
  EXPECT_EQ(tensor().replicas_in_sync({}, 4), 4);
  EXPECT_EQ(strategies().at("ModelParallel").name, "tensor");
}

TEST_F(TensorStrategy, RefusesWhatDoesNotGoWithIt) {
  EXPECT_NO_THROW(tensor().check(options_));
  options_.compress = "fp16";
  expect_refused("--compress fp16", "--strategy mirrored");
  options_.sync_every = 4;
  expect_refused("--sync-every 4", "--strategy mirrored");
  options_.outer_momentum = 0.5;
  expect_refused("--outer-momentum 0.5", "--sync-every");
  options_.updates = config::Updates::async;
  expect_refused("--updates async", "--strategy parameter-server");
  options_.staleness = 1;
  expect_refused("--staleness 1", "--strategy parameter-server");
  options_.backup_workers = 1;
  expect_refused("--backup-workers 1", "--strategy parameter-server");
  options_.servers = 2;
  expect_refused("--servers 2", "--strategy parameter-server");
}

double value_of(const std::vector<measure::Fact>& facts, const std::string& name) {
  for (const measure::Fact& fact : facts) {
    if (fact.name == name) return fact.value;
  }
  ADD_FAILURE() << "no fact " << name;
  return 0.0;
}

TEST_F(TensorStrategy, TellsItsTraffic) {
  plan_ = plan_for(2, 16);
  measure::RunSamples samples;
  samples.bytes_sent = 1000;
  samples.measured_steps = 4;
  const auto facts = tensor().facts({.model = &model_, .options = &options_, .plan = &plan_}, samples);
  const double read_by_layers = 4.0 * 16 * (32 * 225 + 64 * 36 + 64 * 16 + 64);
  EXPECT_EQ(value_of(facts, "split_layers"), 5);
  EXPECT_EQ(value_of(facts, "whole_layers"), 0);
  EXPECT_EQ(value_of(facts, "repeated_share"), 0);
  EXPECT_EQ(value_of(facts, "gathered_bytes"), read_by_layers + 4.0 * 16 * 10);
  EXPECT_EQ(value_of(facts, "summed_bytes"), read_by_layers);
  EXPECT_EQ(value_of(facts, "expected_bytes"), read_by_layers / 2 + 4.0 * 16 * 5 + read_by_layers + 8);
  EXPECT_EQ(value_of(facts, "sent_bytes"), 250);

  plan_ = plan_for(1, 16);
  const auto alone = tensor().facts({.model = &model_, .options = &options_, .plan = &plan_}, samples);
  EXPECT_EQ(value_of(alone, "gathered_bytes"), 0);
  EXPECT_EQ(value_of(alone, "expected_bytes"), 0);
}

// Both ranks update, or neither, though only one of them sees what is not finite.
TEST_F(TensorStrategy, AllRanksDecideAlike) {
  const model::Model model = testing::softmax_regression();
  for (const bool finite : {true, false}) {
    const auto group =
        comm::local_communicators().at("shared_memory").value({.size = 2, .oversubscribed = true});
    backend::StepOutcome outcomes[2];
    float weights[2] = {};
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto faults = std::make_shared<testing::Faults>(
            testing::Faults{.gradient = [&](int r, int) { return r == 1 && !finite ? nan : 1.0F; }});
        backend::ReplicaConfig config;
        config.model = &model;
        config.max_batch = 2;
        config.optimizer = "sgd";
        config.device = rank;
        FakeReplica replica(config, faults, std::make_shared<std::atomic<int>>(0));
        const auto communicator = group->join(rank);
        const auto strategy = tensor().attach(
            {.rank = rank, .replicas = 2, .replica = &replica, .communicator = communicator.get()});
        const std::vector<float> images(2 * 3072, 0.0F);
        const std::int32_t labels[] = {0, 1};
        strategy->before_step();
        replica.forward(0, {.images = images.data(), .labels = labels, .count = 2});
        replica.backward(0, 0.5F, true, true, *strategy);
        strategy->synchronize();
        strategy->apply({.learning_rate = 0.5, .momentum = 0.0});
        outcomes[rank] = strategy->outcome().value();
        for (const float weight : replica.weights()) weights[rank] += std::abs(weight);
      });
    }
    threads.clear();
    EXPECT_EQ(outcomes[0].applied, finite);
    EXPECT_EQ(outcomes[1].applied, finite);
    EXPECT_TRUE(outcomes[0].own_finite);
    EXPECT_EQ(outcomes[1].own_finite, finite);
    for (const float weight : weights) EXPECT_EQ(weight > 0.0F, finite);
  }
}

}  // namespace
}  // namespace dtrain::strategy
