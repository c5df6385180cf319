// How far each precision is from the peer's first step: the numbers that the summary shows. What fp32 must
// hold is tested by tests/golden; these are the limits of the others.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/make_replica.hpp"
#include "golden/npy.hpp"
#include "model/zoo.hpp"
#include "precisions.hpp"

namespace {

using namespace dtrain;
using config::Precision;
using nlohmann::json;

const std::filesystem::path subset = GOLDEN_SUBSET;

class GoldenMaxima : public ::testing::TestWithParam<Precision> {};

TEST_P(GoldenMaxima, OfTheFirstStepOfCnn) {
  const model::Model cnn = model::zoo().at("cnn").value();
  std::ifstream file(subset / "cnn_first_step.json");
  const json expected = json::parse(file);
  const auto pixels = read_npy<float>(subset / "images_0.npy");
  const auto labels = read_npy<std::int32_t>(subset / "labels_0.npy");

  backend::ReplicaConfig config;
  config.model = &cnn;
  config.max_batch = 32;
  config.precision = GetParam();
  const auto replica = dtrain::testing::make_replica(config);
  replica->import_weights(read_npy<float>(subset / "cnn_init.npy"));
  dtrain::testing::NoSink sink;
  constexpr float loss_scale = 1024.0F;  // what fp16 trains with, so that small gradients are not lost
  replica->forward(0, {.images = pixels.data(), .labels = labels.data(), .count = 32});
  replica->backward(0, loss_scale / 32.0F, true, true, sink);
  const double loss = std::abs(replica->result(0).loss_sum / 32.0 / expected["loss"].get<double>() - 1.0);

  std::vector<float> gradients(cnn.parameter_count);
  replica->export_gradients(gradients);
  double worst = 0.0;
  for (std::size_t p = 0; p < cnn.parameters.size(); ++p) {
    const json& tensor = expected["tensors"][p];
    ASSERT_EQ(tensor["name"], cnn.parameters[p].name);
    const float* values = gradients.data() + cnn.parameters[p].offset;
    for (std::size_t k = 0; k < tensor["index"].size(); ++k) {
      const double got = values[tensor["index"][k].get<std::size_t>()] / loss_scale;
      const double gap = std::abs(got - tensor["value"][k].get<double>()) / tensor["largest"].get<double>();
      if (!(gap <= worst)) worst = gap;  // not a number, too
    }
  }
  const auto allowed = dtrain::testing::tolerance_of(GetParam(), true);
  EXPECT_LE(loss, allowed.loss);
  EXPECT_LE(worst, allowed.gradient);
  RecordProperty("golden_precision", config::name(GetParam()));
  RecordProperty("golden_loss", fmt::format("{:.2e}", loss));
  RecordProperty("golden_gradient", fmt::format("{:.2e}", worst));
}

INSTANTIATE_TEST_SUITE_P(Precisions, GoldenMaxima, ::testing::ValuesIn(dtrain::testing::precisions),
                         [](const auto& tested) { return config::name(tested.param); });

}  // namespace
