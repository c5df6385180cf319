#include "strategy/local_sgd.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "fake_replica.hpp"

namespace dtrain::strategy {
namespace {

using testing::FakeReplica;
using ::testing::HasSubstr;

backend::ReplicaConfig replica_config(const model::Model& model) {
  backend::ReplicaConfig config;
  config.model = &model;
  config.max_batch = 4;
  config.optimizer = "sgd";
  return config;
}

// One rank of a run whose gradients a test makes up: the same value for all weights.
class Trainee {
 public:
  Trainee(const std::string& strategy, const config::Options& options, comm::LocalGroup& group, int rank,
          int replicas)
      : replica_(replica_config(model_), std::make_shared<testing::Faults>(),
                 std::make_shared<std::atomic<int>>(0)),
        communicator_(group.join(rank)) {
    std::ranges::fill(replica_.weights(), 1.0F);
    strategy_ = strategies().at(strategy).value->attach({.rank = rank,
                                                         .replicas = replicas,
                                                         .replica = &replica_,
                                                         .communicator = communicator_.get(),
                                                         .options = &options});
  }

  void step(float gradient) {
    std::ranges::fill(replica_.gradients(), gradient);
    strategy_->before_step();
    for (int bucket = 0; bucket < static_cast<int>(replica_.buckets().size()); ++bucket) {
      strategy_->bucket_ready(bucket, {});
    }
    const kernels::OptimizerStep numbers{.learning_rate = 0.5, .momentum = momentum};
    if (strategy_->synchronizes_last()) {
      strategy_->apply(numbers);
      strategy_->synchronize();
    } else {
      strategy_->synchronize();
      strategy_->apply(numbers);
    }
  }

  // That all weights have.
  float weight() {
    for (const float other : replica_.weights()) EXPECT_EQ(other, replica_.weights()[0]);
    return replica_.weights()[0];
  }
  FakeReplica& replica() { return replica_; }
  RankStrategy& strategy() { return *strategy_; }
  std::uint64_t bytes_sent() const { return communicator_->bytes_sent(); }

  double momentum = 0.0;

 private:
  model::Model model_ = testing::softmax_regression();
  FakeReplica replica_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<RankStrategy> strategy_;
};

using Body = std::function<void(Trainee& trainee, int rank)>;

void train(const std::string& strategy, const config::Options& options, int replicas, const Body& body) {
  const auto group =
      comm::local_communicators().at("shared_memory").value({.size = replicas, .oversubscribed = true});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < replicas; ++rank) {
    threads.emplace_back([&, rank] {
      Trainee trainee(strategy, options, *group, rank, replicas);
      body(trainee, rank);
    });
  }
  for (auto& thread : threads) thread.join();
}

config::Options every(int steps, double outer_momentum = 0.0) {
  config::Options options;
  options.sync_every = steps;
  options.outer_momentum = outer_momentum;
  return options;
}

class LocalSgd : public ::testing::TestWithParam<std::string> {};

TEST_P(LocalSgd, OfEveryStepIsTheSumOfGradients) {
  train(GetParam(), every(1), 2, [](Trainee& trainee, int rank) {
    EXPECT_FALSE(trainee.strategy().synchronizes_last());
    trainee.step(rank == 0 ? 1.0F : -2.0F);
    EXPECT_FLOAT_EQ(trainee.weight(), 1.5F);  // 1 - 0.5 x (1 - 2)
    EXPECT_TRUE(trainee.strategy().report().communicated);
  });
}

TEST_P(LocalSgd, AveragesWeightsEveryFourthStep) {
  train(GetParam(), every(4), 2, [](Trainee& trainee, int rank) {
    EXPECT_TRUE(trainee.strategy().synchronizes_last());
    EXPECT_FALSE(trainee.strategy().only_enqueues());
    const std::uint64_t sent = trainee.bytes_sent();
    float expected = 1.0F;
    for (const float gradient : {1.0F, 2.0F, 3.0F}) {
      trainee.step(rank == 0 ? gradient : 0.0F);
      expected -= rank == 0 ? 0.5F * gradient : 0.0F;
      EXPECT_FLOAT_EQ(trainee.weight(), expected);
      EXPECT_FALSE(trainee.strategy().report().communicated);
    }
    EXPECT_EQ(trainee.bytes_sent(), sent);
    trainee.step(rank == 0 ? 4.0F : -2.0F);    // own weights: 1 - 0.5 x 10 and 1 + 0.5 x 2
    EXPECT_FLOAT_EQ(trainee.weight(), -1.0F);  // (-4 + 2) / 2
    EXPECT_TRUE(trainee.strategy().report().communicated);
    EXPECT_GT(trainee.bytes_sent(), sent);

    for (int step = 0; step < 3; ++step) trainee.step(static_cast<float>(rank));
    EXPECT_FLOAT_EQ(trainee.weight(), rank == 0 ? -1.0F : -2.5F);
    EXPECT_FALSE(trainee.strategy().report().communicated);
    trainee.step(static_cast<float>(rank));
    EXPECT_FLOAT_EQ(trainee.weight(), -2.0F);  // (-1 - 3) / 2
  });
}

TEST_P(LocalSgd, CountsEveryReplicaAlike) {
  train(GetParam(), every(2), 3, [](Trainee& trainee, int rank) {
    for (int step = 0; step < 2; ++step) trainee.step(static_cast<float>(rank));
    EXPECT_FLOAT_EQ(trainee.weight(), 0.0F);  // of 1, 0 and -1
  });
}

TEST_P(LocalSgd, GoesOnWithTheOuterMomentum) {
  train(GetParam(), every(2, 0.5), 2, [](Trainee& trainee, int rank) {
    const float gradient = rank == 0 ? 1.0F : 3.0F;
    for (int step = 0; step < 2; ++step) trainee.step(gradient);
    EXPECT_FLOAT_EQ(trainee.weight(), -1.0F);  // mean of 0 and -2; u = 2
    for (int step = 0; step < 2; ++step) trainee.step(gradient);
    EXPECT_FLOAT_EQ(trainee.weight(), -4.0F);  // mean -3, u = 0.5 x 2 + 2 = 3
    for (int step = 0; step < 2; ++step) trainee.step(0.0F);
    EXPECT_FLOAT_EQ(trainee.weight(), -5.5F);  // u = 1.5
  });
}

TEST_P(LocalSgd, LeavesOptimizerStateToEachReplica) {
  train(GetParam(), every(2), 2, [](Trainee& trainee, int rank) {
    trainee.momentum = 0.5;
    for (int step = 0; step < 2; ++step) trainee.step(rank == 0 ? 2.0F : 4.0F);
    // v = g, then 1.5 g: weights go down by 0.5 x 2.5 g.
    EXPECT_FLOAT_EQ(trainee.weight(), 1.0F - 1.25F * 3.0F);
    EXPECT_FLOAT_EQ(trainee.replica().optimizer_state(0)[0], rank == 0 ? 3.0F : 6.0F);
  });
}

TEST_P(LocalSgd, IsOneModelWhereItIsLookedAt) {
  train(GetParam(), every(3), 2, [](Trainee& trainee, int rank) {
    trainee.step(rank == 0 ? 2.0F : 4.0F);
    trainee.strategy().collect_state();
    EXPECT_FLOAT_EQ(trainee.weight(), -0.5F);
    const std::uint64_t sent = trainee.bytes_sent();
    trainee.strategy().collect_state();
    EXPECT_EQ(trainee.bytes_sent(), sent);  // nothing has changed
    // Counts from there.
    for (int step = 0; step < 2; ++step) trainee.step(rank == 0 ? 2.0F : 4.0F);
    EXPECT_FLOAT_EQ(trainee.weight(), rank == 0 ? -2.5F : -4.5F);
    trainee.step(0.0F);
    EXPECT_FLOAT_EQ(trainee.weight(), -3.5F);
  });
}

TEST_P(LocalSgd, BeginsAnewFromWhatWasLoaded) {
  train(GetParam(), every(2, 0.5), 2, [](Trainee& trainee, int rank) {
    for (int step = 0; step < 3; ++step) trainee.step(rank == 0 ? 1.0F : 3.0F);
    std::ranges::fill(trainee.replica().weights(), 10.0F);
    trainee.strategy().distribute_state();
    trainee.step(1.0F);
    EXPECT_FALSE(trainee.strategy().report().communicated);
    trainee.step(1.0F);
    EXPECT_FLOAT_EQ(trainee.weight(), 9.0F);  // no momentum from before
  });
}

TEST_P(LocalSgd, UpdatesWithGradientsOfItsOwn) {
  const Strategy& strategy = *strategies().at(GetParam()).value;
  EXPECT_EQ(strategy.replicas_in_sync(every(4), 8), 1);
  EXPECT_EQ(strategy.replicas_in_sync(every(1), 8), 8);
}

class StreamReplica final : public FakeReplica {
 public:
  using FakeReplica::FakeReplica;
  backend::DeviceStream stream() const override { return {.device = 0, .stream = nullptr}; }
};

TEST_P(LocalSgd, IsForCpuReplicas) {
  const model::Model model = testing::softmax_regression();
  StreamReplica replica(replica_config(model), std::make_shared<testing::Faults>(),
                        std::make_shared<std::atomic<int>>(0));
  const config::Options options = every(4);
  try {
    strategies().at(GetParam()).value->attach({.replica = &replica, .options = &options});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_THAT(error.what(), HasSubstr("--sync-every 4"));
    EXPECT_THAT(error.advice(), HasSubstr("--device cpu"));
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, LocalSgd, ::testing::Values("mirrored", "multi-worker"),
                         [](const auto& name) {
                           return name.param == "mirrored" ? "mirrored" : "multi_worker";
                         });

}  // namespace
}  // namespace dtrain::strategy
