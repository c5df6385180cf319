// Each kind of layer, and with it each kind of cuDNN graph, on the GPU against the CPU backend.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>

#include "backend/backend.hpp"
#include "backend/make_replica.hpp"
#include "model/model.hpp"
#include "precisions.hpp"

namespace {

using namespace dtrain;
using config::Precision;
using dtrain::testing::Images;
using dtrain::testing::Tolerance;
using model::Add;
using model::BatchNorm;
using model::Convolution;
using model::Dense;
using model::MaxPool;
using model::Relu;

// Layers that each read the one before, and the class scores.
model::Model chain(const std::string& name, const std::vector<model::Operation>& operations) {
  std::vector<model::Layer> layers;
  for (const auto& operation : operations) {
    const int before = static_cast<int>(layers.size()) - 1;
    layers.push_back({fmt::format("l{}", layers.size()), operation, {before}, {}, {}});
  }
  layers.push_back({"scores", Dense{10}, {static_cast<int>(layers.size()) - 1}, {}, {}});
  return model::build(name, {3, 32, 32}, 10, std::move(layers));
}

// Two units of convolution, batch norm and ReLU, and their sum.
model::Model residual() {
  std::vector<model::Layer> layers;
  const auto add = [&](const char* name, const model::Operation& operation, std::vector<int> inputs) {
    layers.push_back({name, operation, std::move(inputs), {}, {}});
    return static_cast<int>(layers.size()) - 1;
  };
  const Convolution convolution{.out_channels = 16, .padding = 1, .bias = false};
  const int first = add("a", Relu{}, {add("a", BatchNorm{}, {add("a", convolution, {-1})})});
  const int second = add("b", Relu{}, {add("b", BatchNorm{}, {add("b", convolution, {first})})});
  const int pooled = add("pool", MaxPool{4}, {add("sum", Add{}, {first, second})});
  add("scores", Dense{10}, {pooled});
  return model::build("residual", {3, 32, 32}, 10, std::move(layers));
}

struct Case {
  model::Model model;
  bool kinks;  // ReLUs and pools: what rounding moves to the other side counts as a whole
};

std::vector<Case> models() {
  const Convolution small{.out_channels = 5, .padding = 1};
  const Convolution plain{.out_channels = 9, .bias = false};
  const Convolution unbiased{.out_channels = 6, .padding = 1, .bias = false};
  const Convolution large{.out_channels = 8, .kernel = 5, .padding = 2};
  const Convolution point{.out_channels = 16, .kernel = 1};
  return {
      {chain("dense", {Dense{33}, Dense{24, false}}), false},
      {chain("dense_relu", {Dense{17}, Relu{}, Dense{33}}), true},
      {chain("convolution", {small, plain}), false},
      {chain("convolution_of_5_and_1", {large, point}), false},
      {chain("convolution_relu", {small, Relu{}, plain, Relu{}}), true},
      {chain("batch_norm", {plain, BatchNorm{}, unbiased, BatchNorm{}}), false},
      {chain("batch_norm_relu", {plain, BatchNorm{}, Relu{}, unbiased, BatchNorm{}, Relu{}}), true},
      {chain("pool_of_2", {plain, MaxPool{2}, small}), true},
      {chain("pool_of_3", {small, Relu{}, MaxPool{3}, plain}), true},
      {chain("pool_of_4", {large, Relu{}, MaxPool{4}}), true},
      {residual(), true},
  };
}

struct LayerCase {
  model::Model model;
  Precision precision;
  Tolerance allowed;
};
void PrintTo(const LayerCase& test, std::ostream* out) { *out << test.model.name; }

std::vector<LayerCase> cases() {
  std::vector<LayerCase> all;
  for (const auto& [model, kinks] : models()) {
    for (const Precision precision : dtrain::testing::precisions) {
      all.push_back({model, precision, dtrain::testing::tolerance_of(precision, kinks)});
    }
  }
  return all;
}

// One step's numbers.
struct Step {
  double loss = 0.0;
  int correct = 0;
  std::vector<float> gradients, statistics;
  double evaluation = 0.0;
};

constexpr int count = 7;

Step take_step(backend::Replica& replica, const model::Model& model) {
  const Images images(count);
  dtrain::testing::NoSink sink;
  Step step;
  replica.import_weights(model::initial_weights(model, 3));
  replica.forward(0, images.batch());
  replica.backward(0, 1.0F, true, true, sink);
  const auto result = replica.result(0);
  step.loss = result.loss_sum;
  step.correct = result.correct;
  step.gradients.resize(model.parameter_count);
  replica.export_gradients(step.gradients);
  step.statistics.resize(model.statistic_count);
  replica.export_statistics(step.statistics);
  step.evaluation = replica.evaluate(images.batch()).loss_sum;
  return step;
}

backend::ReplicaConfig config_of(const model::Model& model, Precision precision) {
  backend::ReplicaConfig config;
  config.model = &model;
  config.max_batch = count;
  config.precision = precision;
  return config;
}

double difference(std::span<const float> got, std::span<const float> want) {
  double largest = 1e-20;
  double gap = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(want[i])));
    const double here = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(here <= gap)) gap = here;  // not a number, too
  }
  return gap / largest;
}

class Layers : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Layers, AreTheCpusOnes) {
  const auto& [model, precision, allowed] = GetParam();
  const auto cpu = backend::backend_for("cpu")->make_replica(config_of(model, Precision::fp32));
  const auto gpu = dtrain::testing::make_replica(config_of(model, precision));
  const Step want = take_step(*cpu, model);
  const Step got = take_step(*gpu, model);

  EXPECT_NEAR(got.loss / want.loss, 1.0, allowed.loss);
  EXPECT_NEAR(got.evaluation / want.evaluation, 1.0, allowed.loss);
  if (precision == Precision::fp32) {
    EXPECT_EQ(got.correct, want.correct);
  }
  double worst = 0.0;
  for (const auto& parameter : model.parameters) {
    const double here = difference({got.gradients.data() + parameter.offset, parameter.size},
                                   {want.gradients.data() + parameter.offset, parameter.size});
    EXPECT_LE(here, allowed.gradient) << parameter.name;
    worst = std::max(worst, here);
  }
  EXPECT_LE(difference(got.statistics, want.statistics), allowed.gradient) << "running statistics";
  RecordProperty("loss_difference", fmt::format("{:.2e}", std::abs(got.loss / want.loss - 1.0)));
  RecordProperty("gradient_difference", fmt::format("{:.2e}", worst));
}

INSTANTIATE_TEST_SUITE_P(All, Layers, ::testing::ValuesIn(cases()), [](const auto& tested) {
  return fmt::format("{}_{}", tested.param.model.name, config::name(tested.param.precision));
});

}  // namespace
