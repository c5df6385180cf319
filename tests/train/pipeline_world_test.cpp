#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/backend.hpp"
#include "model/cut.hpp"
#include "model/zoo.hpp"
#include "train/equivalence.hpp"
#include "worlds.hpp"

// Stages on threads, with the replicas that the program has.
namespace dtrain::train {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using testing::MemoryDataset;
using testing::WorldSetup;

// Three convolutions, of which the second is most of the work, and two dense layers: small.
model::Model small_cnn() {
  using namespace model;
  const auto layer = [](const char* name, Operation operation, int input) {
    return Layer{name, std::move(operation), {input}, {}, {}};
  };
  return build("small", {3, 32, 32}, 10,
               {layer("conv1", Convolution{.out_channels = 16}, -1), layer("relu1", Relu{}, 0),
                layer("pool1", MaxPool{4}, 1), layer("conv2", Convolution{.out_channels = 32}, 2),
                layer("relu2", Relu{}, 3), layer("pool2", MaxPool{2}, 4), layer("dense1", Dense{32}, 5),
                layer("relu3", Relu{}, 6), layer("dense2", Dense{10}, 7)});
}

// Without batch norm, a block whose input two layers read.
model::Model small_residual() {
  using namespace model;
  const auto layer = [](const char* name, Operation operation, std::vector<int> inputs) {
    return Layer{name, std::move(operation), std::move(inputs), {}, {}};
  };
  const auto unit = [](int channels) { return Convolution{.out_channels = channels, .padding = 1}; };
  return build("residual", {3, 32, 32}, 10,
               {layer("conv1", unit(32), {-1}), layer("relu1", Relu{}, {0}), layer("pool1", MaxPool{4}, {1}),
                layer("conv2", unit(32), {2}), layer("relu2", Relu{}, {3}), layer("conv3", unit(32), {4}),
                layer("add", Add{}, {2, 5}), layer("conv4", unit(32), {6}), layer("relu4", Relu{}, {7}),
                layer("pool4", MaxPool{4}, {8}), layer("dense", Dense{10}, {9})});
}

std::unique_ptr<WorldSetup> setup_of(const model::Model& model, const std::string& strategy, int devices,
                                     int global_batch) {
  auto setup = std::make_unique<WorldSetup>(1, global_batch, testing::Faults{}, model, 60);
  setup->config.backend = backend::backend_for("cpu", {});
  setup->options.learning_rate = 0.005;  // losses that explode enlarge every rounding
  setup->use(strategy, devices, global_batch);
  return setup;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<float> first_gradients;
  std::vector<float> weights;
  double evaluated = 0.0;
};

Outcome train(WorldSetup& setup, int steps) {
  World world(setup.config);
  Outcome outcome;
  world.run(1);
  outcome.first_gradients = world.gradients(0);
  world.run(steps - 1);
  outcome.losses = world.losses();
  outcome.weights = world.weights(0);
  outcome.evaluated = world.evaluate(setup.config.data.test).loss;
  EXPECT_THAT(world.weight_hashes(), Each(world.weight_hashes()[0]));
  return outcome;
}

// In units of the largest value.
double difference(const std::vector<float>& found, const std::vector<float>& wanted) {
  double largest = 1e-30;
  double worst = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - wanted[i]));
  }
  return found.size() == wanted.size() ? worst / largest : 1e30;
}

void expect_same(const Outcome& found, const Outcome& wanted, const std::string& what) {
  ASSERT_EQ(found.losses.size(), wanted.losses.size()) << what;
  for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], wanted.losses[i], 1e-5 * wanted.losses[i]) << what << ", step " << i + 1;
  }
  EXPECT_LT(difference(found.first_gradients, wanted.first_gradients), 1e-5) << what;
  EXPECT_LT(difference(found.weights, wanted.weights), 1e-5) << what;
  EXPECT_NEAR(found.evaluated, wanted.evaluated, 1e-5 * wanted.evaluated) << what;
}

Outcome on_one_device(const model::Model& model, int global_batch, int steps) {
  const auto setup = setup_of(model, "single", 1, global_batch);
  return train(*setup, steps);
}

struct Case {
  int devices = 2;
  int stages = 2;
  int micro_batches = 4;
  std::string schedule = "1f1b";
  std::vector<std::string> cut{};
  int accumulate = 1;
};

std::string text(const Case& c) {
  return fmt::format("{} devices, {} stages, {} micro-batches, {}, cut {}, accumulate {}", c.devices,
                     c.stages, c.micro_batches, c.schedule, fmt::join(c.cut, ","), c.accumulate);
}

std::unique_ptr<WorldSetup> pipeline_of(const model::Model& model, const Case& c, int global_batch) {
  auto setup = setup_of(model, "single", 1, global_batch);
  setup->options.pipeline_stages = c.stages;
  setup->options.micro_batches = c.micro_batches;
  setup->options.pipeline_schedule = c.schedule;
  setup->options.cut = c.cut;
  setup->options.accumulate = c.accumulate;
  setup->use("pipeline", c.devices, global_batch);
  return setup;
}

TEST(PipelineWorld, TrainsAsOneDeviceDoes) {
  const model::Model model = small_cnn();
  const Outcome wanted = on_one_device(model, 12, 7);
  for (const Case& c :
       {Case{.devices = 1, .stages = 1}, Case{.stages = 1}, Case{}, Case{.schedule = "gpipe"},
        Case{.micro_batches = 1}, Case{.micro_batches = 5},                         // 3, 3, 2, 2, 2 images
        Case{.micro_batches = 99}, Case{.micro_batches = 99, .schedule = "gpipe"},  // one image each
        Case{.cut = {"conv2"}}, Case{.cut = {"conv2:16"}}, Case{.cut = {"dense1:16"}},
        Case{.devices = 3, .stages = 3, .cut = {"conv2:16", "dense2"}}, Case{.devices = 4, .stages = 4},
        Case{.devices = 4, .stages = 4, .schedule = "gpipe"},
        Case{.devices = 4, .stages = 2, .micro_batches = 3},
        Case{.devices = 4, .stages = 2, .schedule = "gpipe"}, Case{.accumulate = 3},
        Case{.devices = 4, .stages = 2, .accumulate = 2}}) {
    const auto setup = pipeline_of(model, c, 12);
    expect_same(train(*setup, 7), wanted, text(c));
  }
}

TEST(PipelineWorld, CutsBeforeAndInsideOfWhatReadsABlocksInput) {
  const model::Model model = small_residual();
  const Outcome wanted = on_one_device(model, 8, 4);
  for (const std::vector<std::string>& cut :
       std::vector<std::vector<std::string>>{{"conv2"}, {"conv2:16"}, {"conv4"}, {"conv4:16"}, {"dense"}}) {
    const Case c{.cut = cut};
    const auto setup = pipeline_of(model, c, 8);
    expect_same(train(*setup, 4), wanted, text(c));
  }
}

// Steps of 12, 12 and 2 images: a pipeline of two that gets none, and micro-batches that do not come.
TEST(PipelineWorld, IsExactInUnevenSharesAndTheRemainder) {
  const model::Model model = small_cnn();
  const auto one = setup_of(model, "single", 1, 12);
  one->options.last_batch = config::LastBatch::keep;
  one->config.data.train = std::make_shared<MemoryDataset>(25, 1);
  const Outcome wanted = train(*one, 6);
  for (const Case& c : {Case{}, Case{.schedule = "gpipe"}, Case{.devices = 4, .stages = 2},
                        Case{.devices = 6, .stages = 2, .schedule = "gpipe"},
                        Case{.devices = 4, .stages = 2, .accumulate = 2}}) {
    const auto setup = pipeline_of(model, c, 12);
    setup->options.last_batch = config::LastBatch::keep;
    setup->config.data.train = std::make_shared<MemoryDataset>(25, 1);
    expect_same(train(*setup, 6), wanted, text(c));
  }
}

TEST(PipelineWorld, CountsEveryImageOnce) {
  const auto setup = pipeline_of(small_cnn(), {.devices = 4, .stages = 2}, 12);
  World world(setup->config);
  const auto stretch = world.run(2);
  ASSERT_EQ(stretch.ranks.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    const auto& record = stretch.ranks[static_cast<std::size_t>(rank)][1];
    EXPECT_EQ(record.images, rank % 2 == 1 ? 6 : 0) << rank;
    EXPECT_EQ(record.step_images, 12);
    EXPECT_GT(record.forward_ns, 0) << rank;
    EXPECT_GT(record.backward_ns, 0) << rank;
    EXPECT_GT(record.communication_in_backward_ns, 0) << rank;
    EXPECT_LE(record.input_ns + record.forward_ns + record.backward_ns + record.communication_in_backward_ns +
                  record.update_ns,
              record.end_ns - record.begin_ns);
  }
  EXPECT_EQ(world.evaluate(setup->config.data.test).images, 37);
}

TEST(PipelineWorld, HandsItsStateToOtherStrategiesAndTakesItBack) {
  const model::Model model = small_cnn();
  for (const char* optimizer : {"sgd", "adam"}) {
    const auto staged = pipeline_of(model, {.devices = 4, .stages = 2}, 12);
    const auto mirrored = setup_of(model, "mirrored", 2, 12);
    for (WorldSetup* setup : {staged.get(), mirrored.get()}) {
      setup->options.optimizer = optimizer;
      setup->options.learning_rate = 0.01;
      setup->config.schedule = schedules().at("constant").value({.peak = 0.01});
    }
    const auto go_on = [](WorldSetup& setup, const TrainingState& state) {
      World world(setup.config);
      world.load_state(state);
      world.run(3);
      return world.save_state();
    };
    World world(staged->config);
    world.run(4);
    const TrainingState state = world.save_state();
    EXPECT_EQ(state.step, 4);
    EXPECT_EQ(state.optimizer.size(), std::string(optimizer) == "sgd" ? 1U : 2U);
    const TrainingState here = go_on(*staged, state);
    const TrainingState there = go_on(*mirrored, state);
    world.run(3);
    EXPECT_EQ(here.weights, world.save_state().weights) << optimizer;  // bit by bit
    EXPECT_LT(difference(there.weights, here.weights), 1e-4) << optimizer;
    for (std::size_t i = 0; i < here.optimizer.size(); ++i) {
      EXPECT_LT(difference(there.optimizer[i], here.optimizer[i]), 1e-4) << optimizer;
    }
    const TrainingState back = go_on(*staged, there);
    EXPECT_LT(difference(back.weights, go_on(*mirrored, there).weights), 1e-4) << optimizer;
  }
}

TEST(PipelineWorld, SaysWhoseValueWasNotFinite) {
  for (const Case& c : {Case{}, Case{.devices = 4, .stages = 2}, Case{.schedule = "gpipe"}}) {
    const auto setup = pipeline_of(small_cnn(), c, 12);
    setup->options.learning_rate = 1e30;
    setup->config.schedule = schedules().at("constant").value({.peak = 1e30});
    World world(setup->config);
    const Error error = testing::error_of([&] { world.run(5); });
    EXPECT_EQ(error.category(), ErrorCategory::run);
    EXPECT_THAT(error.what(), HasSubstr("is not finite")) << text(c);
    EXPECT_THAT(error.what(), HasSubstr("step ")) << text(c);
  }
}

// Stages see only their own gradients, and all skip a step or none.
TEST(PipelineWorld, SkipsStepsTogetherUnderLossScaling) {
  const auto setup = pipeline_of(small_cnn(), {.devices = 4, .stages = 2}, 12);
  setup->options.precision = config::Precision::fp16;  // replicas here compute in fp32
  World world(setup->config);
  const auto before = world.weights(0);
  TrainingState state = world.save_state();
  state.loss_scale = 4e39;  // over 12 images the largest float
  world.load_state(state);
  const auto stretch = world.run(1);
  for (const auto& records : stretch.ranks) EXPECT_TRUE(records[0].skipped);
  EXPECT_EQ(world.weights(0), before);
  const TrainingState after = world.save_state();
  EXPECT_LT(after.loss_scale, 4e39);
  EXPECT_EQ(after.updates, 0);
}

TEST(PipelineWorld, TellsOfStagesBubbleAndActivations) {
  const model::Model model = small_cnn();
  const auto setup = pipeline_of(model, {.cut = {"conv2:16"}}, 12);
  World world(setup->config);
  world.run(2);
  measure::RunSamples samples;
  measure::RoundSample& round = samples.rounds.emplace_back();
  round.ranks.resize(2);
  round.ranks[0].input = 1.0;
  round.ranks[0].forward = 2.0;
  round.ranks[0].backward = 4.0;
  round.ranks[0].communication = 2.0;
  round.ranks[0].update = 9.0;
  round.ranks[0].host = 1.0;
  round.ranks[1].forward = 3.0;
  round.ranks[1].backward = 6.0;
  round.ranks[1].communication = 1.0;
  round.ranks[1].update = 5.0;
  world.describe(samples);
  const auto value = [&](const std::string& name) {
    const auto fact = std::ranges::find(samples.facts, name, &measure::Fact::name);
    EXPECT_NE(fact, samples.facts.end()) << name;
    return fact == samples.facts.end() ? -1.0 : fact->value;
  };
  EXPECT_EQ(value("stages"), 2.0);
  EXPECT_EQ(value("pipelines"), 1.0);
  EXPECT_EQ(value("micro_batches"), 4.0);
  EXPECT_DOUBLE_EQ(value("bubble_share_theory"), 1.0 / 5);
  EXPECT_DOUBLE_EQ(value("bubble_share_measured"), (0.4 + 0.1) / 2);
  EXPECT_NEAR(value("stage_0_share") + value("stage_1_share"), 1.0, 1e-12);
  EXPECT_GE(value("stage_imbalance"), 1.0);
  EXPECT_THAT(samples.facts, Contains(Field(&measure::Fact::meaning, HasSubstr("begins at conv2:16"))));
  EXPECT_EQ(samples.division, "cut at conv2:16");
  ASSERT_EQ(samples.rank_memory.size(), 2U);
  EXPECT_EQ(value("stage_0_activation_bytes"), static_cast<double>(samples.rank_memory[0].activations));
  EXPECT_GT(value("stage_1_activation_bytes"), 0.0);
  const auto& memory = samples.rank_memory[1];
  EXPECT_GE(memory.allocated, memory.weights + memory.gradients + memory.optimizer + memory.activations);
}

TEST(PipelineWorld, KeepsActivationsOfAsManyMicroBatchesAsTheScheduleHasInFlight) {
  const auto activations = [](const std::string& schedule) {
    const auto setup = pipeline_of(small_cnn(), {.micro_batches = 6, .schedule = schedule}, 12);
    World world(setup->config);
    measure::RunSamples samples;
    world.describe(samples);
    return std::pair(samples.rank_memory[0].activations, samples.rank_memory[1].activations);
  };
  const auto one_by_one = activations("1f1b");
  const auto all = activations("gpipe");
  EXPECT_EQ(all.first, 3 * one_by_one.first);    // 6 against 2
  EXPECT_EQ(all.second, 6 * one_by_one.second);  // 6 against 1
}

TEST(PipelineWorld, OfBatchNormIsNotExpectedToBeEqual) {
  const auto setup = pipeline_of(model::resnet9(4), {.micro_batches = 2}, 6);
  World world(setup->config);
  world.run(2);
  EXPECT_TRUE(std::isfinite(world.evaluate(setup->config.data.test).loss));
  measure::RunSamples samples;
  world.describe(samples);
  EXPECT_THAT(samples.notes, Contains(HasSubstr("batch statistics are each micro-batch's own")));
  const EquivalenceReport report = verify_equivalence(setup->config, {.steps = 2});
  EXPECT_FALSE(report.expected);
  EXPECT_TRUE(report.passed());
}

TEST(PipelineWorld, IsEquivalent) {
  const auto setup = pipeline_of(small_cnn(), {.devices = 4, .stages = 2}, 12);
  const EquivalenceReport report = verify_equivalence(setup->config);
  EXPECT_TRUE(report.expected);
  EXPECT_TRUE(report.passed());
}

}  // namespace
}  // namespace dtrain::train
