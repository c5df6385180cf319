// Steps on a real GPU: recorded ones are the ones that would have been taken, and the device's clock is the
// host's.

#include <gtest/gtest.h>

#include "backend/make_replica.hpp"
#include "cuda/steps.hpp"
#include "model/zoo.hpp"
#include "precisions.hpp"

namespace {

using namespace dtrain;
using config::Precision;
using dtrain::testing::Records;
using dtrain::testing::Stepper;

std::unique_ptr<backend::Replica> make_replica(const model::Model& model, int batch, Precision precision,
                                               bool graphs = true) {
  backend::ReplicaConfig config;
  config.model = &model;
  config.max_batch = batch;
  config.precision = precision;
  config.graphs = graphs;
  auto made = dtrain::testing::make_replica(config);
  made->import_weights(model::initial_weights(model, 3));
  return made;
}

class Steps : public ::testing::TestWithParam<Precision> {
 protected:
  struct Trace {
    std::vector<double> losses;
    std::vector<float> weights;
    int enqueued = 0;
  };

  // Eight steps of changing batches, sizes and learning rates.
  Trace train(const model::Model& model, bool graphs) {
    const auto replica = make_replica(model, 16, GetParam(), graphs);
    const Records records(128);
    Stepper stepper(*replica);
    Trace trace;
    for (int step = 0; step < 8; ++step) {
      const auto batch = records.part(16 * step, step == 5 ? 11 : 16);
      trace.losses.push_back(stepper.step(batch, 1e-3 / (step + 1)).loss_sum);
    }
    trace.weights.resize(model.parameter_count);
    replica->export_weights(trace.weights);
    trace.enqueued = stepper.enqueued;
    return trace;
  }
};

TEST_P(Steps, ReplaysAreTheSameBits) {
  for (const auto& model : {model::zoo().at("cnn").value(), model::resnet9(8)}) {
    SCOPED_TRACE(model.name);
    const Trace expected = train(model, false);
    const Trace replayed = train(model, true);
    EXPECT_EQ(expected.enqueued, 8);
    EXPECT_LT(replayed.enqueued, 8);
    EXPECT_EQ(replayed.losses, expected.losses);
    EXPECT_EQ(replayed.weights, expected.weights);
  }
}

// 40 steps on one batch: the loss falls, and ends up where fp32's does.
TEST_P(Steps, LearnABatch) {
  const model::Model model = model::resnet9(8);
  const auto replica = make_replica(model, 32, GetParam());
  const Records records(32);
  Stepper stepper(*replica);
  const double first = stepper.step(records.part(0, 32), 3e-3).loss_sum;
  double last = first;
  for (int step = 1; step < 40; ++step) last = stepper.step(records.part(0, 32), 3e-3).loss_sum;
  EXPECT_GT(first / 32, 1.0);
  EXPECT_LT(last, 0.2 * first);
  EXPECT_TRUE(replica->outcome().applied);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Steps, ::testing::ValuesIn(dtrain::testing::precisions),
                         [](const auto& tested) { return config::name(tested.param); });

// Run by itself: other work on the GPU or the host is measured too.
TEST(Timing, TheDevicesWindowIsTheHosts) {
  const model::Model cnn = model::zoo().at("cnn").value();
  const auto replica = make_replica(cnn, 1024, Precision::fp32);
  const Records records(1024);
  Stepper stepper(*replica);
  for (int step = 0; step < 20; ++step) stepper.step(records.part(0, 1024), 1e-4);
  const auto first = [&] { return replica->time_ns(stepper.marks.front()); };
  const auto last = [&] { return replica->time_ns(stepper.marks.back()); };

  std::int64_t device = 0;
  std::int64_t begin = 0;
  std::int64_t before = 0;
  const std::int64_t host = now_ns();
  std::int64_t host_after = host;
  int steps = 0;
  for (; host_after - host < 500'000'000 && steps < 20'000; ++steps) {
    stepper.step(records.part(0, 1024), 1e-4);
    host_after = now_ns();
    if (steps == 0) begin = first();
    EXPECT_LE(before, last()) << "step " << steps;
    before = last();
    device += last() - first();
  }
  const auto window = static_cast<double>(before - begin);
  const auto whole = static_cast<double>(host_after - host);
  EXPECT_NEAR(window / whole, 1.0, 0.05);
  EXPECT_LE(static_cast<double>(device), window * 1.01);
  EXPECT_GT(device, 0);
  std::printf(
      "%d steps of cnn with 1024 images: %.1f ms by the host's clock, %.1f ms by the device's, of which it "
      "worked %.1f %%\n",
      steps, whole / 1e6, window / 1e6, 100.0 * static_cast<double>(device) / window);
}

}  // namespace
