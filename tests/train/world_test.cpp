#include "train/world.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/hash.hpp"
#include "worlds.hpp"

namespace dtrain::train {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::WorldSetup;

void expect_close(const std::vector<double>& found, const std::vector<double>& wanted, double relative) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], relative * std::abs(wanted[i])) << "step " << i + 1;
  }
}

std::vector<double> losses(const WorldSetup& setup, int steps) {
  World world(setup.config);
  world.run(steps);
  return world.losses();
}

TEST(World, SingleLearns) {
  WorldSetup setup;
  setup.use("single", 1, 12);
  const auto found = losses(setup, 60);
  ASSERT_THAT(found, SizeIs(60));
  EXPECT_LT(found.back(), 0.6 * found.front());
}

TEST(World, AnyNumberOfReplicasTrainsAsOneDoes) {
  WorldSetup one;
  one.use("single", 1, 12);
  const auto wanted = losses(one, 12);          // two epochs and a bit: order changes in between
  for (const int replicas : {1, 2, 3, 4, 5}) {  // 12 images among 5: 3, 3, 2, 2, 2
    WorldSetup many(replicas, 12);
    expect_close(losses(many, 12), wanted, 1e-5);
  }
}

TEST(World, AccumulationTrainsAsTheWholeBatchDoes) {
  WorldSetup one;
  one.use("single", 1, 12);
  const auto wanted = losses(one, 8);
  for (const auto& [replicas, accumulate] : {std::pair{1, 3}, {2, 2}, {3, 3}, {2, 6}}) {
    WorldSetup many;
    many.options.accumulate = accumulate;
    many.use("mirrored", replicas, 12);
    expect_close(losses(many, 8), wanted, 1e-5);
  }
}

TEST(World, RanksWithoutImagesTakePartInTheRemainder) {
  const auto make = [](const std::string& strategy, int replicas, int accumulate) {
    auto setup = std::make_unique<WorldSetup>(2, 12, testing::Faults{}, testing::softmax_regression(), 26);
    setup->options.last_batch = config::LastBatch::keep;
    setup->options.accumulate = accumulate;
    setup->use(strategy, replicas, 12);
    return setup;
  };
  const auto wanted = losses(*make("single", 1, 1), 7);  // steps of 12, 12 and 2 images
  expect_close(losses(*make("mirrored", 4, 1), 7), wanted, 1e-5);
  expect_close(losses(*make("mirrored", 3, 2), 7), wanted, 1e-5);

  const auto setup = make("mirrored", 4, 1);
  World world(setup->config);
  const auto stretch = world.run(3);
  int images = 0;
  for (const auto& records : stretch.ranks) {
    EXPECT_EQ(records[2].step_images, 2);
    images += records[2].images;
  }
  EXPECT_EQ(images, 2);
  EXPECT_EQ(stretch.ranks[3][2].images, 0);
  EXPECT_EQ(stretch.ranks[3][2].loss_sum, 0.0);
}

TEST(World, WithoutASeedOfLuckRunsRepeatBitForBit) {
  WorldSetup setup(3, 12);
  EXPECT_EQ(losses(setup, 10), losses(setup, 10));
  const auto before = losses(setup, 10);
  setup.options.seed = 1;
  EXPECT_NE(losses(setup, 10), before);
}

TEST(World, RanksEndWithTheSameWeights) {
  WorldSetup setup(3, 12);
  World world(setup.config);
  world.run(7);
  const auto hashes = world.weight_hashes();
  EXPECT_THAT(hashes, SizeIs(3));
  EXPECT_THAT(hashes, Each(hashes[0]));
  EXPECT_EQ(world.weights(0), world.weights(2));
  EXPECT_EQ(world.gradients(0), world.gradients(1));
  Hash hash;
  const auto weights = world.weights(1);
  hash.add(std::span<const float>(weights));
  EXPECT_EQ(hash.hex(), hashes[0]);
  EXPECT_EQ(world.steps_taken(), 7);
}

TEST(World, UpdatesByScheduleDecayAndUpdateNumber) {
  WorldSetup setup;
  setup.use("single", 1, 12);
  setup.options.momentum = 0.0;
  setup.options.weight_decay = 0.1;
  setup.config.schedule = schedules().at("constant").value({.peak = 0.5, .warmup_steps = 2});
  World world(setup.config);
  double rate = 0.25;
  for (int step = 0; step < 3; ++step) {
    const auto before = world.weights(0);
    world.run(1);
    const auto gradients = world.gradients(0);
    const auto after = world.weights(0);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_NEAR(after[i], before[i] - rate * gradients[i] - rate * 0.1 * before[i], 1e-6) << i;
    }
    rate = 0.5;
  }
}

// Adam's first step moves every weight by the learning rate, whatever the gradient: only if it counts from 1.
TEST(World, AdamCountsUpdatesFromOne) {
  WorldSetup setup(2, 12);
  setup.options.optimizer = "adam";
  setup.options.learning_rate = 1e-3;
  setup.use("mirrored", 2, 12);
  World world(setup.config);
  const auto before = world.weights(0);
  world.run(1);
  const auto after = world.weights(0);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(std::abs(after[i] - before[i]), 1e-3, 1e-5);
}

TEST(World, RecordsHangTogether) {
  WorldSetup setup(2, 12);
  World world(setup.config);
  world.run(2);
  const auto stretch = world.run(5);
  ASSERT_THAT(stretch.ranks, SizeIs(2));
  std::int64_t last_end = 0;
  for (const auto& records : stretch.ranks) {
    ASSERT_THAT(records, SizeIs(5));
    std::int64_t previous = stretch.begin_ns;
    for (const auto& record : records) {
      EXPECT_GE(record.begin_ns, previous);
      EXPECT_EQ(record.begin_ns + record.input_ns + record.forward_ns + record.backward_ns +
                    record.communication_in_backward_ns,
                record.arrival_ns);
      EXPECT_GE(record.communicated_ns, record.arrival_ns);
      EXPECT_EQ(record.communicated_ns + record.update_ns, record.end_ns);
      EXPECT_GT(record.backward_ns, 0);
      EXPECT_GT(record.communication_in_backward_ns, 0);
      EXPECT_EQ(record.images, 6);
      EXPECT_EQ(record.step_images, 12);
      EXPECT_FALSE(record.skipped);
      previous = record.end_ns;
    }
    last_end = std::max(last_end, previous);
  }
  EXPECT_EQ(stretch.end_ns, last_end);
  EXPECT_EQ(stretch.begin_ns, std::min(stretch.ranks[0][0].begin_ns, stretch.ranks[1][0].begin_ns));
  double loss = 0.0;
  for (const auto& records : stretch.ranks) loss += records[4].loss_sum;
  EXPECT_EQ(world.losses().at(6), loss / 12);
}

TEST(World, TakesNoStepsWhenAskedForNone) {
  WorldSetup setup(2, 12);
  World world(setup.config);
  const auto stretch = world.run(0);
  EXPECT_THAT(stretch.ranks, SizeIs(2));
  EXPECT_THAT(stretch.ranks[0], SizeIs(0));
  EXPECT_EQ(world.steps_taken(), 0);
}

TEST(World, DelaysHitTheirRankAndPhaseOnly) {
  using config::Phase;
  constexpr std::int64_t ms = 1'000'000;
  constexpr double wait = 30.0;
  for (const Phase phase :
       {Phase::input, Phase::forward, Phase::backward, Phase::communication, Phase::update}) {
    WorldSetup setup(2, 12);
    setup.options.accumulate = 6;  // once a step, not once a micro-step
    setup.use("mirrored", 2, 12);
    setup.config.delays = {{.rank = 1, .phase = phase, .milliseconds = wait}};
    World world(setup.config);
    const auto record = world.run(1).ranks[1][0];
    const std::int64_t times[] = {
        record.input_ns, record.forward_ns, record.backward_ns,
        record.communication_in_backward_ns + record.communicated_ns - record.arrival_ns, record.update_ns};
    EXPECT_GE(times[static_cast<int>(phase)], 30 * ms) << config::name(phase);
    EXPECT_LT(times[static_cast<int>(phase)], 6 * 30 * ms) << config::name(phase);
  }
}

TEST(World, LiveStepShowsTheStretch) {
  WorldSetup setup(2, 12);
  setup.config.live = std::make_shared<measure::LiveStep>();
  World world(setup.config);
  world.run(3);
  const auto stretch = world.run(4);
  EXPECT_EQ(setup.config.live->steps, 4);
  EXPECT_EQ(setup.config.live->planned, 4);
  EXPECT_EQ(setup.config.live->images, 48);
  EXPECT_LE(setup.config.live->begin_ns, stretch.begin_ns);
  EXPECT_EQ(setup.config.live->loss, stretch.ranks[0][3].loss_sum / 6);
}

TEST(World, DescribesItself) {
  WorldSetup setup(2, 12);
  World world(setup.config);
  world.run(10);
  measure::RunSamples samples;
  samples.measured_steps = 6;  // the rest was warm-up
  world.describe(samples);
  EXPECT_THAT(samples.losses, SizeIs(10));
  EXPECT_TRUE(samples.weights_agree);
  EXPECT_EQ(samples.weights_hash, world.weight_hashes()[0]);
  EXPECT_EQ(samples.replica_bytes, 4 * (128 + 16) * sizeof(float) + 1);  // rank 1 is the largest
  EXPECT_EQ(samples.bytes_sent, 6 * (128 + 16) * sizeof(float));         // 2 (n - 1) / n of the buckets
  EXPECT_EQ(samples.stamps_per_step, 1 + 3 + 2 * 2 + 2);
  EXPECT_GT(samples.stamp_seconds, 0.0);
  EXPECT_LT(samples.stamp_seconds, 1e-3);
  EXPECT_THAT(samples.notes, SizeIs(0));
}

TEST(World, EvaluatesEveryImageOnce) {
  std::vector<double> found;
  for (const int replicas : {1, 2, 5}) {
    WorldSetup setup(replicas, 10);
    World world(setup.config);
    world.run(20);
    const Evaluation evaluation = world.evaluate(setup.config.data.test);
    EXPECT_EQ(evaluation.images, 37);
    const double correct = evaluation.accuracy * 37;
    EXPECT_NEAR(correct, std::round(correct), 1e-9);
    EXPECT_GT(evaluation.accuracy, 0.3);
    found.push_back(evaluation.loss);
  }
  EXPECT_NEAR(found[1], found[0], 1e-5);
  EXPECT_NEAR(found[2], found[0], 1e-5);
}

TEST(World, EvaluatesFewerImagesThanReplicas) {
  WorldSetup setup(4, 12);
  World world(setup.config);
  const Evaluation evaluation = world.evaluate(std::make_shared<testing::MemoryDataset>(2, 5));
  EXPECT_EQ(evaluation.images, 2);
  EXPECT_NEAR(evaluation.loss, std::log(10.0), 1.5);
}

TEST(World, EvaluationLeavesTrainingAlone) {
  WorldSetup setup(2, 12);
  const auto wanted = losses(setup, 6);
  World world(setup.config);
  world.run(2);
  world.evaluate(setup.config.data.test);
  world.run(4);
  EXPECT_EQ(world.losses(), wanted);
}

// The fake adds its first statistic to the loss; it grows by 1 + rank with every pass.
TEST(World, EvaluationUsesTheStatisticsOfRankZero) {
  WorldSetup setup(2, 12, {}, testing::normalised_softmax_regression());
  World world(setup.config);
  world.run(5);
  const double loss = world.evaluate(setup.config.data.test).loss;
  EXPECT_GT(loss, 5.0);
  EXPECT_LT(loss, 5.0 + 3.0);
  EXPECT_EQ(world.save_state().statistics[0], 5.0F);
  measure::RunSamples samples;
  world.describe(samples);
  ASSERT_THAT(samples.notes, SizeIs(1));
  EXPECT_THAT(samples.notes[0], HasSubstr("batch statistics are each replica's own"));
}

TEST(World, ResumesExactly) {
  for (const char* optimizer : {"sgd", "adam"}) {
    WorldSetup setup(2, 12);
    setup.options.optimizer = optimizer;
    setup.options.learning_rate = 0.01;
    setup.use("mirrored", 2, 12);
    World whole(setup.config);
    whole.run(13);
    TrainingState state;
    {
      World first(setup.config);
      first.run(7);  // in the middle of the second epoch
      state = first.save_state();
    }
    EXPECT_EQ(state.step, 7);
    EXPECT_EQ(state.updates, 7);
    World second(setup.config);
    second.run(2);  // what it did before does not matter
    second.load_state(state);
    EXPECT_EQ(second.steps_taken(), 7);
    second.run(6);
    EXPECT_EQ(second.losses(), std::vector(whole.losses().begin() + 7, whole.losses().end())) << optimizer;
    EXPECT_EQ(second.weight_hashes(), whole.weight_hashes()) << optimizer;
  }
}

TEST(World, ResumesWithAnotherNumberOfReplicas) {
  WorldSetup setup(2, 12);
  World whole(setup.config);
  whole.run(5);
  const TrainingState state = whole.save_state();
  whole.run(5);
  setup.use("mirrored", 4, 12);
  World more(setup.config);
  more.load_state(state);
  more.run(5);
  expect_close(more.losses(), std::vector(whole.losses().begin() + 5, whole.losses().end()), 1e-5);
}

TEST(World, RefusesTheStateOfAnotherOptimizer) {
  WorldSetup setup(2, 12);
  World world(setup.config);
  TrainingState state = world.save_state();
  state.optimizer.emplace_back(state.weights.size());
  EXPECT_EQ(testing::error_of([&] { world.load_state(state); }).category(), ErrorCategory::data);
}

}  // namespace
}  // namespace dtrain::train
