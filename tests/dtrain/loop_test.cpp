#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/units.hpp"
#include "cli/session.hpp"
#include "dtrain/strategy.hpp"

// Loops of one's own, held against `dtrain train`.
namespace {

using namespace dtrain;
using testing::HasSubstr;

Options small() {
  Options options;
  options.strategy = "mirrored";
  options.replicas = {2};
  options.model = "mlp";
  options.batch_size = 8;
  options.data = "synthetic";
  options.device = "cpu";
  options.quiet = true;
  options.bucket_mb = 0.1;
  return options;
}

constexpr int steps = 4;

// What `dtrain train` does.
struct Trained {
  std::vector<double> losses;
  train::Evaluation evaluation;
  std::vector<float> weights;
};

Trained trained(const Options& asked, bool evaluate = false) {
  Options options = asked;
  options.dry_run = true;
  const cli::Session session = cli::open_session(options, config::make_train_plan);
  const auto& run = session.plan.runs.front();
  const std::int64_t total = std::int64_t{options.epochs} * cli::steps_per_epoch(session, run);
  train::World world(cli::world_config(session, run, total));
  world.run(steps);
  Trained found{.losses = world.losses(), .evaluation = {}, .weights = {}};
  if (evaluate) found.evaluation = world.evaluate(session.data.test);
  found.weights = world.weights(0);
  return found;
}

// Sums first, so that even rounding is that of `dtrain train`.
double take_step(Strategy& strategy, const DistributedDataset& images) {
  std::atomic<int> step_images{0};
  double loss = 0.0;
  for (int i = 0; i < strategy.options().accumulate; ++i) {
    const auto losses = strategy.run(
        [&](Replica& replica, const Batch& batch) {
          replica.forward(batch);
          replica.backward(batch);
          if (!batch.last_of_step) return 0.0;
          replica.apply_gradients();
          step_images = batch.step_images;
          return replica.result().loss_sum;
        },
        images);
    loss = strategy.reduce(ReduceOp::sum, losses);
  }
  return loss / step_images;
}

std::vector<double> losses_of_loop(const Options& options) {
  Strategy strategy(options);
  const auto images = strategy.distribute(strategy.data().train);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) losses.push_back(take_step(strategy, images));
  return losses;
}

struct Way {
  const char* name;
  void (*change)(Options&);
};

class Loop : public testing::TestWithParam<Way> {};

TEST_P(Loop, TrainsAsDtrainTrainDoes) {
  Options options = small();
  GetParam().change(options);
  const auto expected = trained(options).losses;
  const auto found = losses_of_loop(options);
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_NE(expected.front(), expected.back());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_DOUBLE_EQ(found[i], expected[i]) << "step " << i + 1;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Loop,
    testing::Values(Way{"as_it_is", [](Options&) {}},
                    Way{"single",
                        [](Options& o) {
                          o.strategy = "single";
                          o.replicas = {1};
                        }},
                    Way{"uneven_shares",
                        [](Options& o) {
                          o.replicas = {3};
                          o.batch_size.reset();
                          o.global_batch = 16;
                        }},
                    Way{"accumulated", [](Options& o) { o.accumulate = 2; }},
                    Way{"no_overlap", [](Options& o) { o.overlap = false; }},
                    Way{"local_sgd", [](Options& o) { o.sync_every = 3; }},
                    Way{"compressed", [](Options& o) { o.compress = "bf16"; }},
                    Way{"bf16", [](Options& o) { o.precision = config::Precision::bf16; }},
                    Way{"scheduled",
                        [](Options& o) {
                          o.optimizer = "sgd";
                          o.schedule = "cosine";
                          o.warmup_epochs = 0.01;
                        }},
                    Way{"augmented", [](Options& o) { o.augment = true; }},
                    Way{"residual",
                        [](Options& o) {
                          o.model = std::string(DTRAIN_MODELS) + "/residual.toml";
                          o.batch_size = 4;
                        }},
                    Way{"parameter_server", [](Options& o) { o.strategy = "parameter-server"; }}),
    [](const auto& way) { return way.param.name; });

TEST(LoopReplicas, TrainAsOneDoes) {
  Options one = small();
  one.strategy = "single";
  one.replicas = {1};
  one.batch_size = 16;
  const auto expected = losses_of_loop(one);
  const auto found = losses_of_loop(small());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]);
}

TEST(LoopReplicas, KnowWhoTheyAre) {
  Strategy strategy(small());
  EXPECT_EQ(strategy.num_replicas(), 2);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
  EXPECT_EQ(strategy.global_batch(), 16);
  EXPECT_EQ(strategy.model().name, "mlp");
  const auto ids = strategy.run([](Replica& replica) { return replica.id(); });
  EXPECT_EQ(ids, (PerReplica<int>{0, 1}));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, ids), 1.0);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, ids), 0.5);
  std::atomic<int> calls{0};
  strategy.run([&](Replica&) { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(LoopReplicas, EvaluateAndHandOutWeights) {
  Options options = small();
  Strategy strategy(options);
  const auto images = strategy.distribute(strategy.data().train);
  EXPECT_EQ(images.batches_per_epoch(), images.steps_per_epoch());
  EXPECT_EQ(strategy.weights(0), model::initial_weights(strategy.model(), options.seed));
  for (int step = 0; step < steps; ++step) take_step(strategy, images);
  const Trained expected = trained(options, true);
  const Evaluation found = strategy.evaluate(strategy.data().test);
  EXPECT_DOUBLE_EQ(found.loss, expected.evaluation.loss);
  EXPECT_DOUBLE_EQ(found.accuracy, expected.evaluation.accuracy);
  EXPECT_EQ(strategy.weights(0), expected.weights);
  EXPECT_EQ(strategy.weights(1), expected.weights);
}

TEST(LoopReplicas, TakeALearningRate) {
  Options options = small();
  options.optimizer = "sgd";
  Strategy strategy(options);
  const auto images = strategy.distribute(strategy.data().train);
  const auto before = strategy.weights();
  strategy.run(
      [](Replica& replica, const Batch& batch) {
        replica.forward(batch);
        replica.backward(batch);
        return replica.apply_gradients(0.0) ? 1 : 0;
      },
      images);
  EXPECT_EQ(strategy.weights(), before);
}

std::string what_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return std::string(error.what()) + " -> " + error.advice();
  }
  return "nothing was thrown";
}

TEST(LoopFailure, OfAFunctionNamesTheReplicaAndEndsTheOthersWaits) {
  Strategy strategy(small());
  const auto images = strategy.distribute(strategy.data().train);
  take_step(strategy, images);
  const auto work = [&] {
    strategy.run(
        [](Replica& replica, const Batch& batch) {
          if (replica.id() == 1) throw std::runtime_error("out of patience");
          replica.forward(batch);
          replica.backward(batch);
          replica.apply_gradients();
        },
        images);
  };
  const TimePoint begin = Clock::now();
  EXPECT_THAT(what_of(work), HasSubstr("step 2, rank 1: out of patience"));
  EXPECT_LT(seconds(Clock::now() - begin), 15.0);  // not the timeout, which is 20 s
  EXPECT_THAT(what_of([&] { take_step(strategy, images); }), HasSubstr("out of patience"));
  EXPECT_THAT(what_of([&] { strategy.weights(); }), HasSubstr("out of patience"));
}

TEST(LoopFailure, OfAStepThatOneReplicaLeavesOutNamesIt) {
  Options options = small();
  options.timeout = Seconds(1.0);
  Strategy strategy(options);
  const auto images = strategy.distribute(strategy.data().train);
  const auto work = [&] {
    strategy.run(
        [](Replica& replica, const Batch& batch) {
          if (replica.id() == 1) return;
          replica.forward(batch);
          replica.backward(batch);
          replica.apply_gradients();
        },
        images);
  };
  EXPECT_THAT(what_of(work), HasSubstr("rank 1"));
}

TEST(LoopFailure, OfCallsOutOfOrderSaysWhatTheOrderIs) {
  const auto refused = [](const std::function<void(Replica&, const Batch&)>& calls) {
    Options options = small();
    options.strategy = "single";
    options.replicas = {1};
    Strategy strategy(options);
    const auto images = strategy.distribute(strategy.data().train);
    return what_of([&] { strategy.run(calls, images); });
  };
  EXPECT_THAT(refused([](Replica& r, const Batch& b) { r.backward(b); }), HasSubstr("call forward"));
  EXPECT_THAT(refused([](Replica& r, const Batch&) { r.apply_gradients(); }), HasSubstr("after backward"));
  EXPECT_THAT(refused([](Replica& r, const Batch& b) {
                r.forward(b);
                r.forward(b);
              }),
              HasSubstr("call backward after it"));
  EXPECT_THAT(refused([](Replica& r, const Batch& b) {
                r.forward(b);
                r.backward(b);
                r.result();
              }),
              HasSubstr("after apply_gradients"));
}

TEST(LoopFailure, OfNumbersThatAreNotFiniteIsFound) {
  Options options = small();
  options.optimizer = "sgd";
  Strategy strategy(options);
  const auto images = strategy.distribute(strategy.data().train);
  const auto work = [&] {
    for (int step = 0; step < steps; ++step) {
      strategy.run(
          [](Replica& replica, const Batch& batch) {
            replica.forward(batch);
            replica.backward(batch);
            replica.apply_gradients(1e30);
          },
          images);
    }
  };
  EXPECT_THAT(what_of(work), HasSubstr("is not finite -> lower the learning rate, 1e+30"));
}

TEST(LoopFailure, OfStrategiesThatCutTheModelIsToldAtOnce) {
  for (const char* name : {"pipeline", "tensor", "sharded"}) {
    Options options = small();
    options.strategy = name;
    EXPECT_THAT(what_of([&] { Strategy strategy(options); }), HasSubstr("hold parts of the model")) << name;
  }
}

TEST(LoopFailure, OfWhatCannotBeIsThatOfDtrainTrain) {
  Options options = small();
  options.strategy = "single";
  EXPECT_THAT(what_of([&] { Strategy strategy(options); }), HasSubstr("single trains on one device"));
  Strategy strategy(small());
  EXPECT_THAT(what_of([&] { strategy.distribute(nullptr); }), HasSubstr("no such data set"));
  EXPECT_THAT(what_of([&] { strategy.weights(2); }), HasSubstr("replica 2"));
}

}  // namespace
