#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/page_buffer.hpp"
#include "strategy/sharded_memory.hpp"
#include "train/checkpoint.hpp"
#include "worlds.hpp"

namespace dtrain::train {
namespace {

using ::testing::Each;
using testing::error_of;
using testing::layer;
using testing::WorldSetup;

// Every kind of layer that has parameters; the first dense layer has most of them.
model::Model small_model(int hidden) {
  return model::build("small", {3, 32, 32}, 10,
                      {layer("conv1", model::Convolution{.out_channels = 16}, model::image_input),
                       layer("relu1", model::Relu{}, 0), layer("pool1", model::MaxPool{4}, 1),
                       layer("conv2", model::Convolution{.out_channels = 32}, 2),
                       layer("norm2", model::BatchNorm{}, 3), layer("relu2", model::Relu{}, 4),
                       layer("pool2", model::MaxPool{2}, 5), layer("dense1", model::Dense{hidden}, 6),
                       layer("relu3", model::Relu{}, 7), layer("dense2", model::Dense{10}, 8)});
}

// The same training by replicas on cores, under one strategy or another.
struct Training {
  int replicas = 2;
  int stage = 2;
  std::string optimizer = "sgd";
  config::Precision precision = config::Precision::fp32;
  int accumulate = 1;
  bool overlap = true;
  int global_batch = 12;
  std::size_t images = 60;
  config::LastBatch last_batch = config::LastBatch::drop;
  int hidden = 64;

  std::unique_ptr<WorldSetup> setup(const std::string& strategy) const {
    auto made =
        std::make_unique<WorldSetup>(replicas, global_batch, testing::Faults{}, small_model(hidden), images);
    made->config.backend = backend::backends().at("cpu").value({});
    made->options.zero_stage = stage;
    made->options.optimizer = optimizer;
    made->options.precision = precision;
    made->options.accumulate = accumulate;
    made->options.overlap = overlap;
    made->options.last_batch = last_batch;
    made->use(strategy, replicas, global_batch);
    return made;
  }
};

struct Outcome {
  std::vector<double> losses;
  std::vector<std::string> hashes;
  Evaluation evaluation;
  std::vector<float> gradients;
};

Outcome train(const Training& training, const std::string& strategy, int steps = 6) {
  const auto setup = training.setup(strategy);
  World world(setup->config);
  world.run(steps);
  Outcome outcome;
  outcome.hashes = world.weight_hashes();
  outcome.gradients = world.gradients(training.replicas - 1);
  outcome.evaluation = world.evaluate(setup->config.data.test);
  world.run(2);  // what was gathered to look at it is no longer needed
  outcome.losses = world.losses();
  outcome.hashes.push_back(world.weight_hashes().front());
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& wanted) {
  EXPECT_EQ(found.losses, wanted.losses);
  EXPECT_EQ(found.hashes, wanted.hashes);
  EXPECT_EQ(found.evaluation.loss, wanted.evaluation.loss);
  EXPECT_EQ(found.evaluation.accuracy, wanted.evaluation.accuracy);
  EXPECT_EQ(found.gradients, wanted.gradients);
}

void expect_same_as_mirrored(Training training, std::initializer_list<int> stages = {1, 2, 3}) {
  const Outcome wanted = train(training, "mirrored");
  EXPECT_THAT(wanted.losses, Each(::testing::Gt(0.0)));
  for (const int stage : stages) {
    SCOPED_TRACE(fmt::format("stage {} with {} replicas", stage, training.replicas));
    training.stage = stage;
    expect_same(train(training, "sharded"), wanted);
  }
}

TEST(ShardedWorld, TrainsAsMirroredDoesToTheLastBit) {
  for (const int replicas : {1, 2, 3, 4}) expect_same_as_mirrored({.replicas = replicas});
}

TEST(ShardedWorld, WithEveryOptimizer) {
  for (const char* optimizer : {"adam", "adamw"}) expect_same_as_mirrored({.optimizer = optimizer});
}

TEST(ShardedWorld, WithWeightsThatAreRounded) {
  expect_same_as_mirrored({.replicas = 3, .optimizer = "adam", .precision = config::Precision::bf16});
}

TEST(ShardedWorld, WithAccumulationAndWithoutOverlap) {
  expect_same_as_mirrored({.optimizer = "adam", .accumulate = 3});
  expect_same_as_mirrored({.overlap = false});
}

TEST(ShardedWorld, WithUnevenSharesAndAShortLastBatch) {
  expect_same_as_mirrored({.replicas = 3, .global_batch = 13});
  // Steps of 12, 12 and 2 images: some ranks have none of the last.
  expect_same_as_mirrored({.replicas = 4, .images = 26, .last_batch = config::LastBatch::keep});
  expect_same_as_mirrored(
      {.replicas = 3, .accumulate = 2, .images = 26, .last_batch = config::LastBatch::keep});
}

TEST(ShardedWorld, StateGoesOnUnderAnotherStrategy) {
  const Training training{.replicas = 3, .optimizer = "adam"};
  const auto mirrored = training.setup("mirrored");
  World whole(mirrored->config);
  whole.run(4);
  const TrainingState wanted = whole.save_state();
  whole.run(3);
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto setup = Training{.replicas = 2, .stage = stage, .optimizer = "adam"}.setup("sharded");
    World first(setup->config);
    first.load_state(wanted);
    const TrainingState again = first.save_state();
    EXPECT_EQ(again.weights, wanted.weights);
    EXPECT_EQ(again.optimizer, wanted.optimizer);
    EXPECT_EQ(again.statistics, wanted.statistics);
    EXPECT_EQ(again.updates, wanted.updates);
  }
  Training other = training;
  for (const int stage : {1, 2, 3}) {
    other.stage = stage;
    const auto setup = other.setup("sharded");
    World world(setup->config);
    world.run(4);
    const TrainingState state = world.save_state();
    EXPECT_EQ(state.weights, wanted.weights);
    EXPECT_EQ(state.optimizer, wanted.optimizer);
    const auto next = training.setup("mirrored");
    World resumed(next->config);
    resumed.load_state(state);
    // Batch statistics other than rank 0's begin anew in both.
    resumed.run(3);
    EXPECT_EQ(resumed.weight_hashes(), whole.weight_hashes());
  }
}

constexpr int large = 1024;  // two megabytes of weights

// Bytes by theory and what was there, of the rank with the most.
std::vector<std::pair<double, double>> memory(const Training& training, int steps) {
  const auto setup = training.setup("sharded");
  World world(setup->config);
  world.run(steps);
  world.evaluate(setup->config.data.test);  // for which the whole state is there
  world.run(1);
  measure::RunSamples samples;
  world.describe(samples);
  std::vector<std::pair<double, double>> pairs;
  for (std::size_t fact = 0; fact + 1 < samples.facts.size(); fact += 2) {
    EXPECT_THAT(samples.facts[fact].name, ::testing::EndsWith("_bytes_theory"));
    EXPECT_THAT(samples.facts[fact + 1].name, ::testing::EndsWith("_bytes_measured"));
    pairs.emplace_back(samples.facts[fact].value, samples.facts[fact + 1].value);
  }
  return pairs;
}

TEST(ShardedWorld, MemoryIsWhatTheoryHasItUpToPages) {
  const auto page = static_cast<double>(PageBuffer::page_size());
  for (const int replicas : {1, 2, 4}) {
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("stage {} with {} replicas", stage, replicas));
      const auto pairs =
          memory({.replicas = replicas, .stage = stage, .optimizer = "adam", .hidden = large}, 3);
      ASSERT_EQ(pairs.size(), 3U);
      for (const auto& [theory, measured] : pairs) {
        EXPECT_GE(measured, 0.99 * theory);
        EXPECT_LE(measured, theory + 2 * 8 * page);
      }
    }
  }
}

TEST(ShardedWorld, MemoryThatIsToldAheadIsEnough) {
  for (const int stage : {1, 2, 3}) {
    for (const int accumulate : {1, 2}) {
      const Training training{.replicas = 4,
                              .stage = stage,
                              .optimizer = "adam",
                              .accumulate = accumulate,
                              .global_batch = 64,
                              .images = 64,
                              .hidden = large};
      const auto setup = training.setup("sharded");
      const strategy::Assignment assignment = setup->config.strategy->assign(
          {.model = setup->config.model.get(), .options = &setup->options, .plan = &setup->config.plan});
      backend::ReplicaConfig config;
      config.model = setup->config.model.get();
      config.max_batch = assignment.max_batch;
      config.optimizer = "adam";
      config.bucket_bytes = assignment.bucket_bytes;
      SCOPED_TRACE(fmt::format("stage {}, {} micro-steps of {}", stage, accumulate, config.max_batch));
      const std::size_t whole = setup->config.backend->estimate_memory(config);
      config.sharded = assignment.sharded;
      config.shares = 4;
      config.zero_stage = assignment.zero_stage;
      config.whole_gradients = assignment.whole_gradients;
      const std::size_t estimate = setup->config.backend->estimate_memory(config);
      World world(setup->config);
      world.run(3);
      measure::RunSamples samples;
      world.describe(samples);
      EXPECT_LT(estimate, whole);
      for (const measure::RankMemory& rank : samples.rank_memory) {
        EXPECT_LE(rank.peak, estimate + 4096);  // running statistics
        EXPECT_GE(static_cast<double>(rank.peak), 0.85 * static_cast<double>(estimate));
      }
    }
  }
}

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Stages whose work a replica need not know of.
std::unique_ptr<WorldSetup> faulty(int stage, int replicas, testing::Faults faults) {
  auto setup = std::make_unique<WorldSetup>(replicas, 12, std::move(faults));
  setup->options.zero_stage = stage;
  setup->options.optimizer = "adam";
  setup->use("sharded", replicas, 12);
  return setup;
}

// The bad element lies in one rank's part of the sum alone.
TEST(ShardedWorld, AGradientThatIsNotFiniteIsBlamedOnTheRankItCameFrom) {
  for (const int stage : {1, 2}) {
    for (const int culprit : {0, 1, 2}) {
      const auto setup =
          faulty(stage, 3,
                 {.gradient = [=](int rank, int pass) { return rank == culprit && pass == 3 ? nan : 0.0F; }});
      World world(setup->config);
      EXPECT_EQ(error_of([&] { world.run(6); }).what(),
                fmt::format("step 4, rank {}: gradient is not finite", culprit));
    }
  }
}

TEST(ShardedWorld, AWeightThatIsNotFiniteIsSeenByAll) {
  for (const int stage : {1, 2, 3}) {
    const auto setup = Training{.replicas = 3, .stage = stage, .optimizer = "adam"}.setup("sharded");
    World world(setup->config);
    TrainingState state = world.save_state();
    state.optimizer[0][5] = nan;
    world.load_state(state);
    EXPECT_THAT(error_of([&] { world.run(1); }).what(),
                ::testing::MatchesRegex("step 1, rank [012]: weight is not finite"));
  }
}

TEST(ShardedWorld, AllSkipTheStepWhoseGradientsOverflowInOnePart) {
  for (const int stage : {1, 2}) {
    const auto setup = faulty(
        stage, 3, {.gradient = [](int rank, int pass) { return rank == 1 && pass == 1 ? nan : 0.0F; }});
    setup->options.precision = config::Precision::fp16;
    World world(setup->config);
    world.run(1);
    const TrainingState before = world.save_state();
    const auto stretch = world.run(1);
    for (const auto& records : stretch.ranks) EXPECT_TRUE(records[0].skipped);
    const TrainingState after = world.save_state();
    EXPECT_EQ(after.weights, before.weights);
    EXPECT_EQ(after.optimizer, before.optimizer);
    EXPECT_EQ(after.updates, 1);
    world.run(2);
    EXPECT_EQ(world.save_state().updates, 3);
    const auto hashes = world.weight_hashes();
    EXPECT_THAT(hashes, Each(hashes[0]));
  }
}

}  // namespace
}  // namespace dtrain::train
