// Worlds of CPU replicas that hold slices of a model, against one that holds the whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/zoo.hpp"
#include "train/equivalence.hpp"
#include "worlds.hpp"

namespace dtrain::train {
namespace {

using ::testing::Each;
using testing::error_of;
using ::testing::HasSubstr;
using testing::WorldSetup;

// A convolution with a bias that batch norm takes away again: its true gradient is zero.
model::Model biased() {
  using namespace model;
  return build("biased", {3, 32, 32}, 10,
               {Layer{"conv", Convolution{.out_channels = 16, .padding = 1}, {image_input}, {}, {}},
                Layer{"norm", BatchNorm{}, {0}, {}, {}}, Layer{"relu", Relu{}, {1}, {}, {}},
                Layer{"pool", MaxPool{4}, {2}, {}, {}}, Layer{"scores", Dense{10}, {3}, {}, {}}});
}

model::Model model_of(const std::string& name) {
  if (name == "biased") return biased();
  return name == "resnet9_w8" ? model::resnet9(8) : model::zoo().at(name).value();
}

std::unique_ptr<WorldSetup> world_of(const std::string& model, const std::string& strategy, int replicas,
                                     int global_batch, int accumulate = 1, std::size_t images = 60) {
  auto setup =
      std::make_unique<WorldSetup>(replicas, global_batch, testing::Faults{}, model_of(model), images);
  setup->config.backend = backend::backends().at("cpu").value({});
  setup->options.accumulate = accumulate;
  setup->options.learning_rate = 0.01;
  setup->use(strategy, replicas, global_batch);
  return setup;
}

void expect_close(const std::vector<double>& found, const std::vector<double>& wanted, double relative) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], relative * std::abs(wanted[i])) << "step " << i + 1;
  }
}

class TensorWorld : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(TensorWorld, TrainsAsOneDeviceDoes) {
  const auto& [model, replicas] = GetParam();
  const auto setup = world_of(model, "tensor", replicas, 12);
  const EquivalenceReport report = verify_equivalence(setup->config, {.steps = 6});
  EXPECT_TRUE(report.expected);
  for (const Check& check : report.checks) {
    EXPECT_TRUE(check.passed) << check.name << ' ' << check.measured << " of " << check.limit;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TensorWorld,
                         ::testing::Combine(::testing::Values("mlp", "cnn", "resnet9_w8", "biased"),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param) + '_' + std::to_string(std::get<1>(tested.param));
                         });

TEST(Tensor, AccumulatesAndKeepsAShortLastBatch) {
  const auto run = [](const std::string& strategy, int replicas, int accumulate) {
    const auto setup = world_of("cnn", strategy, replicas, 12, accumulate, 26);
    setup->options.last_batch = config::LastBatch::keep;
    World world(setup->config);
    world.run(7);  // steps of 12, 12 and 2 images
    return world.losses();
  };
  const auto wanted = run("single", 1, 1);
  expect_close(run("tensor", 2, 3), wanted, 1e-4);
  expect_close(run("tensor", 3, 1), wanted, 1e-4);
}

// With accumulation a micro-batch has statistics of its own, whatever the strategy.
TEST(Tensor, DoesNotPromiseBatchStatisticsOverMicroBatches) {
  const auto setup = world_of("resnet9_w8", "tensor", 2, 12, 2);
  EXPECT_FALSE(verify_equivalence(setup->config, {.steps = 2}).expected);
}

TEST(Tensor, ImagesAndLossesAreCountedOnce) {
  const auto setup = world_of("cnn", "tensor", 3, 12);
  World world(setup->config);
  const measure::StretchRecord stretch = world.run(3);
  for (std::size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(stretch.ranks[0][step].images, 12);
    EXPECT_EQ(stretch.ranks[1][step].images, 0);
    EXPECT_EQ(stretch.ranks[2][step].images, 0);
    for (const auto& records : stretch.ranks) {
      EXPECT_EQ(records[step].step_images, 12);
      EXPECT_GT(records[step].communication_in_backward_ns, 0);
      EXPECT_GT(records[step].forward_ns, 0);
      EXPECT_GT(records[step].backward_ns, 0);
    }
    EXPECT_NEAR(world.losses()[step], stretch.ranks[0][step].loss_sum / 12, 1e-12);
  }
}

TEST(Tensor, EvaluatesAsOneDeviceDoes) {
  for (const char* model : {"cnn", "resnet9_w8"}) {
    const auto evaluate = [&](const std::string& strategy, int replicas) {
      const auto setup = world_of(model, strategy, replicas, 12);
      World world(setup->config);
      world.run(4);
      return world.evaluate(setup->config.data.test);
    };
    const Evaluation wanted = evaluate("single", 1);
    const Evaluation found = evaluate("tensor", 3);
    EXPECT_EQ(found.images, 37);
    EXPECT_NEAR(found.loss, wanted.loss, 1e-4 * wanted.loss);
    EXPECT_EQ(found.accuracy, wanted.accuracy);
  }
}

// A checkpoint is that of the whole model: it goes on under any strategy.
TEST(Tensor, StateMovesBetweenStrategies) {
  const std::string model = "cnn";
  const auto settings = [&](const std::string& strategy, int replicas) {
    auto setup = world_of(model, strategy, replicas, 12);
    setup->options.optimizer = "adam";
    setup->options.learning_rate = 0.001;
    setup->use(strategy, replicas, 12);
    return setup;
  };
  const auto single = settings("single", 1);
  World whole(single->config);
  whole.run(9);

  std::vector<double> losses;
  TrainingState state;
  for (const auto& [strategy, replicas] : {std::pair{"tensor", 3}, {"mirrored", 2}, {"tensor", 2}}) {
    const auto setup = settings(strategy, replicas);
    World world(setup->config);
    if (!losses.empty()) world.load_state(state);
    world.run(3);
    losses.insert(losses.end(), world.losses().begin(), world.losses().end());
    state = world.save_state();
    EXPECT_EQ(state.step, static_cast<std::int64_t>(losses.size()));
  }
  expect_close(losses, whole.losses(), 1e-4);
}

TEST(Tensor, ResumesExactly) {
  const auto setup = world_of("resnet9_w8", "tensor", 2, 12);
  World whole(setup->config);
  whole.run(6);
  World before(setup->config);
  before.run(3);
  World after(setup->config);
  after.load_state(before.save_state());
  after.run(3);
  EXPECT_EQ(after.weight_hashes(), whole.weight_hashes());
  EXPECT_EQ(after.save_state().statistics, whole.save_state().statistics);
}

TEST(Tensor, NamesWhatIsNotFinite) {
  const auto setup = world_of("mlp", "tensor", 2, 12);
  World world(setup->config);
  world.run(1);
  TrainingState state = world.save_state();
  state.weights.back() = std::numeric_limits<float>::quiet_NaN();  // a bias of the last rank's logits
  world.load_state(state);
  const Error error = error_of([&] { world.run(1); });
  EXPECT_THAT(error.what(), HasSubstr("step 2"));
  EXPECT_THAT(error.what(), HasSubstr("is not finite"));
}

TEST(Tensor, DescribesItself) {
  const auto setup = world_of("resnet9_w8", "tensor", 2, 12);
  World world(setup->config);
  world.run(2);
  measure::RunSamples samples;
  samples.measured_steps = 2;
  world.describe(samples);
  EXPECT_TRUE(samples.weights_agree);
  EXPECT_THAT(world.weight_hashes(), Each(samples.weights_hash));
  EXPECT_TRUE(samples.notes.empty());  // batch statistics are those of the whole batch
  double expected = 0.0;
  double sent = 0.0;
  for (const measure::Fact& fact : samples.facts) {
    if (fact.name == "expected_bytes") expected = fact.value;
    if (fact.name == "sent_bytes") sent = fact.value;
  }
  EXPECT_GT(expected, 1000.0);
  EXPECT_NEAR(sent, expected, 0.01 * expected);
}

TEST(Tensor, MoreDevicesHoldLessEach) {
  const auto weights_of = [](int replicas) {
    const auto setup = world_of("mlp", replicas == 1 ? "single" : "tensor", replicas, 4);
    World world(setup->config);
    measure::RunSamples samples;
    world.describe(samples);
    return static_cast<double>(samples.replica_bytes);
  };
  const double one = weights_of(1);
  EXPECT_LT(weights_of(2), 0.6 * one);
  EXPECT_LT(weights_of(4), 0.35 * one);
}

}  // namespace
}  // namespace dtrain::train
