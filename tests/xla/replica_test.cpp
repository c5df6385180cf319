// A replica that drives devices through XLA: precisions, padding, memory, time, what is not finite.

#include <limits>

#include "base/error.hpp"
#include "datasets/pipeline.hpp"
#include "replica_fixture.hpp"

namespace dtrain::testing {
namespace {

// Bytes are normalised, cropped and mirrored as the input pipeline of CPU replicas does it.
TEST_F(XlaReplicaTest, TakesBytesWithCrops) {
  const model::Model mlp = make_model("mlp");
  Random random(5);
  std::vector<std::uint8_t> bytes(6 * 3072);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  std::vector<std::int32_t> labels = {3, 1, 4, 1, 5, 9};
  const std::vector<kernels::Crop> crops = {{0, 0, false}, {2, -3, true}, {-4, 4, false},
                                            {1, 1, true},  {0, 0, true},  {4, -4, true}};
  const auto normalisation =
      kernels::Normalisation::from(datasets::channel_mean, datasets::channel_deviation);
  for (const bool cropped : {false, true}) {
    std::vector<float> floats(bytes.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      kernels::normalise_reference(bytes.data() + i * 3072, floats.data() + i * 3072, normalisation,
                                   cropped ? crops[i] : kernels::Crop{}, false);
    }
    const Batch batch{.labels = labels.data(),
                      .pixels = bytes.data(),
                      .crops = cropped ? crops.data() : nullptr,
                      .count = 6};
    auto two = devices(mlp, 6, 2);
    auto reference = cpu(mlp, 6);
    two->fused_step(micro(batch, 6, true, true));
    take(*reference, micro({.images = floats.data(), .labels = labels.data(), .count = 6}, 6, true, true));
    expect_same(look(*two, mlp), look(*reference, mlp), 5e-5);
  }
}

TEST_F(XlaReplicaTest, EveryOptimizerIsThatOfTheCpuBackend) {
  const model::Model mlp = make_model("mlp");
  const Images images(6);
  weight_decay_ = 0.1;
  learning_rate_ = 1e-3;  // so few images are learnt at once otherwise
  for (const auto& name : kernels::optimizers().names()) {
    optimizer_ = name;
    auto one = devices(mlp, 6, 1);
    auto reference = cpu(mlp, 6);
    for (const int step : {1, 2, 3}) {
      const MicroStep whole = micro(images.part(0, 6), 6, true, true, step);
      one->fused_step(whole);
      take(*reference, whole);
    }
    expect_same(look(*one, mlp), look(*reference, mlp), 2e-4);
  }
}

// The same roundings as the CPU backend's emulation, at the same places; where sums differ in their last bit,
// a value may be rounded to its other neighbour.
TEST_F(XlaReplicaTest, Bf16IsThatOfTheCpuBackend) {
  const model::Model cnn = make_model("cnn");
  const Images images(12);
  precision_ = config::Precision::bf16;
  auto two = devices(cnn, 12, 2);
  auto reference = cpu(cnn, 12);
  const MicroStep whole = micro(images.part(0, 12), 12, true, true);
  two->fused_step(whole);
  take(*reference, whole);
  const Seen got = look(*two, cnn);
  const Seen want = look(*reference, cnn);
  EXPECT_NEAR(got.loss / want.loss, 1.0, 1e-3);
  expect_near(got.gradients, want.gradients, 3e-2, "gradients");
  expect_near(got.weights, want.weights, 1e-3, "weights");
  const auto exact = make_model("cnn");
  precision_ = config::Precision::fp32;
  auto unrounded = devices(exact, 12, 2);
  unrounded->fused_step(whole);
  EXPECT_NE(unrounded->result(0).loss_sum, got.loss);
}

// Statistics are each device's own.
TEST_F(XlaReplicaTest, BatchNormsOfPaddedSharesSeeRealImagesAlone) {
  const model::Model resnet = make_model("resnet9_w8");
  const Images images(7);
  auto two = devices(resnet, 8, 2);
  two->fused_step(micro(images.part(0, 7), 7, true, true));
  const Seen got = look(*two, resnet);

  auto first = cpu(resnet, 4);
  auto second = cpu(resnet, 4);
  NoSink sink;
  first->forward(0, images.part(0, 4));
  first->backward(0, 1.0F / 7.0F, true, true, sink);
  second->forward(0, images.part(4, 3));
  second->backward(0, 1.0F / 7.0F, true, true, sink);
  std::vector<float> sum(resnet.parameter_count);
  std::vector<float> other(resnet.parameter_count);
  std::vector<float> statistics(resnet.statistic_count);
  first->export_gradients(sum);
  second->export_gradients(other);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  EXPECT_NEAR(got.loss / (first->result(0).loss_sum + second->result(0).loss_sum), 1.0, 1e-5);
  expect_near(got.gradients, sum, 2e-4, "gradients");
  first->export_statistics(statistics);
  expect_near(got.statistics, statistics, 1e-4, "the first device's statistics");
}

TEST_F(XlaReplicaTest, WritesNewValuesOverTheOld) {
  const model::Model mlp = make_model("mlp");
  const Images images(6);
  auto two = devices(mlp, 6, 2);
  const auto address = [&](Group group) {
    auto call =
        backend::xla::arguments<PJRT_Buffer_UnsafePointer_Args>(PJRT_Buffer_UnsafePointer_Args_STRUCT_SIZE);
    const auto& plugin = *two->client().plugin();
    call.buffer = two->held().of(group, 1).front().get();
    plugin.check(plugin.api().PJRT_Buffer_UnsafePointer(&call), "tell an address");
    return call.buffer_pointer;
  };
  two->synchronize(patience());
  const auto weights = address(Group::weights);
  const auto state = address(Group::states);
  const auto gradients = address(Group::gradients);
  for (int step = 1; step < 4; ++step) {
    two->fused_step(micro(images.part(0, 6), 6, true, true, step));
    two->synchronize(patience());
    EXPECT_EQ(address(Group::weights), weights);
    EXPECT_EQ(address(Group::states), state);
    EXPECT_EQ(address(Group::gradients), gradients);
  }
}

TEST_F(XlaReplicaTest, StateLeavesAndEntersInCanonicalOrder) {
  const model::Model cnn = make_model("cnn");
  const auto weights = model::initial_weights(cnn, 9);
  auto two = devices(cnn, 4, 2);
  two->import_weights(weights);
  two->import_optimizer_state(0, weights);
  std::vector<float> out(weights.size());
  two->export_weights(out);
  EXPECT_EQ(out, weights);
  two->export_optimizer_state(0, out);
  EXPECT_EQ(out, weights);
}

TEST_F(XlaReplicaTest, WhatIsNotFiniteIsSaid) {
  const model::Model mlp = make_model("mlp");
  Images images(6);
  images.pixels[5 * 3072] = std::numeric_limits<float>::quiet_NaN();
  auto two = devices(mlp, 6, 2);
  two->fused_step(micro(images.part(0, 6), 6, true, true));
  const auto outcome = two->outcome();
  EXPECT_FALSE(outcome.own_finite);
  EXPECT_FALSE(outcome.applied);
  EXPECT_FALSE(outcome.weights_finite);
}

TEST_F(XlaReplicaTest, AnUpdateOfItsOwnLeavesEverythingAloneAfterAnOverflow) {
  const model::Model mlp = make_model("mlp");
  Images images(6);
  images.pixels[0] = std::numeric_limits<float>::infinity();
  auto two = devices(mlp, 6, 2);
  NoSink sink;
  two->forward(0, images.part(0, 6));
  two->backward(0, 1.0F, true, true, sink);
  two->update({0, two->weights().size()}, {}, true);
  EXPECT_FALSE(two->outcome().applied);
  EXPECT_TRUE(two->outcome().weights_finite);
  std::vector<float> weights(mlp.parameter_count);
  two->export_weights(weights);
  EXPECT_EQ(weights, model::initial_weights(mlp, 3));
}

TEST_F(XlaReplicaTest, BatchesThatCameAheadAreTakenInOrder) {
  const model::Model mlp = make_model("mlp");
  Images images(12);
  auto ahead = devices(mlp, 6, 2);
  auto plain = devices(mlp, 6, 2);
  std::vector<float> moving(images.pixels.begin() + 6 * 3072, images.pixels.end());
  ahead->fused_step(micro(images.part(0, 6), 6, true, true, 1));
  EXPECT_TRUE(ahead->prefetch({.images = moving.data(), .labels = images.labels.data() + 6, .count = 6}));
  std::ranges::fill(moving, 0.0F);
  EXPECT_FALSE(ahead->prefetch(images.part(0, 6)));
  ahead->synchronize(patience());
  ahead->fused_step(micro(images.part(6, 6), 6, true, true, 2));
  for (const int step : {1, 2}) plain->fused_step(micro(images.part(6 * (step - 1), 6), 6, true, true, step));
  expect_same(look(*ahead, mlp), look(*plain, mlp), 0.0);
}

TEST_F(XlaReplicaTest, MarksAreWhenTheDevicesHadPassedThem) {
  const model::Model cnn = make_model("cnn");
  const Images images(32);
  auto one = devices(cnn, 32, 1);
  one->fused_step(micro(images.part(0, 32), 32, true, true));
  one->synchronize(patience());
  const std::int64_t host_before = now_ns();
  const auto before = one->mark();
  one->fused_step(micro(images.part(0, 32), 32, true, true));
  const auto after = one->mark();
  one->synchronize(patience());
  const std::int64_t host_after = now_ns();
  EXPECT_GE(one->time_ns(before), host_before);
  EXPECT_GT(one->time_ns(after), one->time_ns(before));
  EXPECT_LE(one->time_ns(after), host_after);
}

TEST_F(XlaReplicaTest, AWaitThatIsTooShortNamesWhatItWaitsFor) {
  const model::Model cnn = make_model("cnn");
  const Images images(64);
  auto one = devices(cnn, 64, 2);  // a program of one may run in the call that starts it
  one->fused_step(micro(images.part(0, 64), 64, true, true));
  one->synchronize(patience());
  one->fused_step(micro(images.part(0, 64), 64, true, true));
  try {
    one->synchronize(Deadline::in(Seconds(0.0)));
    GTEST_SKIP() << "the step was done at once";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a training step"), std::string::npos) << error.what();
    EXPECT_EQ(error.category(), ErrorCategory::run);
  }
  one->synchronize(patience());
}

TEST_F(XlaReplicaTest, TellsWhatItsMemoryIsFor) {
  const model::Model mlp = make_model("mlp");
  const Images images(6);
  optimizer_ = "adam";
  auto two = devices(mlp, 6, 2);
  two->fused_step(micro(images.part(0, 6), 6, true, true));
  const auto use = two->memory();
  EXPECT_EQ(use.weights, sizeof(float) * mlp.parameter_count);  // of each device
  EXPECT_EQ(use.gradients, use.weights);
  EXPECT_EQ(use.optimizer, 2 * use.weights);
  EXPECT_EQ(use.allocated, use.weights + use.gradients + use.optimizer);
  EXPECT_GE(use.peak, use.allocated);
}

TEST_F(XlaReplicaTest, StepsThatWerePreparedForCompileNothing) {
  const model::Model mlp = make_model("mlp");
  const std::vector<std::uint8_t> pixels(6 * 3072, 7);
  const std::vector<std::int32_t> labels(6, 3);
  const auto batch = [&](int count) {
    return Batch{.labels = labels.data(), .pixels = pixels.data(), .count = count};
  };
  auto two = devices(mlp, 6, 2);
  const int whole[] = {6};
  two->prepare_steps(whole);
  EXPECT_EQ(two->programs(), 1);
  two->fused_step(micro(batch(6), 6, true, true));
  const int parts[] = {6, 6, 5};
  two->prepare_steps(parts);
  EXPECT_EQ(two->programs(), 4);
  two->fused_step(micro(batch(6), 17, true, false));
  two->fused_step(micro(batch(6), 17, false, false));
  two->fused_step(micro(batch(5), 17, false, true));
  two->synchronize(patience());
  EXPECT_EQ(two->programs(), 4);
}

TEST_F(XlaReplicaTest, RefusesAnOptimizerWithoutALowering) {
  EXPECT_THROW(backend::xla::step_numbers("newton", {}, 1.0F), Error);
}

}  // namespace
}  // namespace dtrain::testing
