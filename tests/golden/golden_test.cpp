// Holds a backend's numbers against a peer's: PyTorch in double precision, confirmed by JAX and
// TensorFlow.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/make_replica.hpp"
#include "model/zoo.hpp"
#include "npy.hpp"

namespace {

using namespace dtrain;
using nlohmann::json;

const std::filesystem::path subset = GOLDEN_SUBSET;
const std::filesystem::path full = GOLDEN_FULL;

class NoSink final : public backend::GradientSink {
 public:
  void bucket_ready(int, backend::DeviceToken) override {}
};

json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

std::unique_ptr<backend::Replica> make_replica(const model::Model& model, const std::string& optimizer,
                                               int batch, int threads = 1) {
  backend::ReplicaConfig config;
  config.model = &model;
  config.max_batch = batch;
  config.optimizer = optimizer;
  config.threads = threads;
  return dtrain::testing::make_replica(config);
}

// Largest difference from the expected values, relative to the largest of them.
double relative_difference(std::span<const float> got, std::span<const double> want) {
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    difference = std::max(difference, std::abs(got[i] - want[i]));
  }
  return difference / largest;
}

struct Images {
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
  backend::Batch batch(int index, int count) const {
    return {.images = pixels.data() + static_cast<std::size_t>(index) * 32 * 3072,
            .labels = labels.data() + index * 32,
            .count = count};
  }
};

double loss_of(const backend::BatchResult& result) { return result.loss_sum / result.count; }

TEST(GoldenSubset, FirstStepOfCnnMatchesThePeer) {
  const model::Model cnn = model::zoo().at("cnn").value();
  const json expected = read_json(subset / "cnn_first_step.json");
  const Images images{read_npy<float>(subset / "images_0.npy"),
                      read_npy<std::int32_t>(subset / "labels_0.npy")};
  for (const int threads : {1, 2}) {
    auto replica = make_replica(cnn, "sgd", 32, threads);
    replica->import_weights(read_npy<float>(subset / "cnn_init.npy"));
    NoSink sink;
    replica->forward(0, images.batch(0, 32));
    replica->backward(0, 1.0F / 32.0F, true, true, sink);
    EXPECT_NEAR(loss_of(replica->result(0)) / expected["loss"].get<double>(), 1.0, 1e-6);

    std::vector<float> gradients(cnn.parameter_count);
    replica->export_gradients(gradients);
    for (std::size_t p = 0; p < cnn.parameters.size(); ++p) {
      const json& tensor = expected["tensors"][p];
      ASSERT_EQ(tensor["name"], cnn.parameters[p].name);
      const float* values = gradients.data() + cnn.parameters[p].offset;
      double squares = 0.0;
      for (std::size_t i = 0; i < cnn.parameters[p].size; ++i)
        squares += static_cast<double>(values[i]) * values[i];
      EXPECT_NEAR(std::sqrt(squares) / tensor["l2"].get<double>(), 1.0, 1e-5) << tensor["name"];
      for (std::size_t k = 0; k < tensor["index"].size(); ++k) {
        EXPECT_NEAR(values[tensor["index"][k].get<std::size_t>()], tensor["value"][k].get<double>(),
                    2e-5 * tensor["largest"].get<double>())
            << tensor["name"];
      }
    }
  }
}

class GoldenFull : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(full / "trace.json")) {
      GTEST_SKIP() << "the full golden numbers are not here (" << full.string() << "); the subset is tested";
    }
    trace_ = read_json(full / "trace.json");
    images_ = {read_npy<float>(full / "images.npy"), read_npy<std::int32_t>(full / "labels.npy")};
  }

  static std::vector<float> initial(const model::Model& model, const std::string& prefix) {
    std::vector<float> weights(model.parameter_count);
    for (const auto& parameter : model.parameters) {
      const auto values = read_npy<float>(full / (prefix + "_init_" + parameter.name + ".npy"));
      EXPECT_EQ(values.size(), parameter.size) << parameter.name;
      std::copy(values.begin(), values.end(), weights.begin() + static_cast<long>(parameter.offset));
    }
    return weights;
  }

  void check_gradients(const model::Model& model, const std::string& prefix, double limit) {
    auto replica = make_replica(model, "sgd", 32);
    replica->import_weights(initial(model, prefix));
    NoSink sink;
    replica->forward(0, images_.batch(0, 32));
    replica->backward(0, 1.0F / 32.0F, true, true, sink);
    const double loss = trace_[prefix]["first_step"]["loss_f64"];
    EXPECT_NEAR(loss_of(replica->result(0)) / loss, 1.0, 1e-6);
    std::vector<float> gradients(model.parameter_count);
    replica->export_gradients(gradients);
    for (const auto& parameter : model.parameters) {
      const auto expected = read_npy<double>(full / (prefix + "_grad_" + parameter.name + ".npy"));
      EXPECT_LT(relative_difference({gradients.data() + parameter.offset, parameter.size}, expected), limit)
          << parameter.name;
    }
  }

  // Trains on the five batches in turn and returns each step's loss before its update.
  std::vector<double> train(const model::Model& model, const std::string& prefix,
                            const std::string& optimizer, kernels::OptimizerStep step, int steps) {
    auto replica = make_replica(model, optimizer, 32);
    replica->import_weights(initial(model, prefix));
    NoSink sink;
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) {
      replica->forward(0, images_.batch(i % 5, 32));
      replica->backward(0, 1.0F / 32.0F, true, true, sink);
      losses.push_back(loss_of(replica->result(0)));
      step.step = i + 1;
      replica->update({0, replica->weights().size()}, step, false);
      EXPECT_TRUE(replica->outcome().applied);
      if (i == 19) {
        weights_after_20_.resize(model.parameter_count);
        replica->export_weights(weights_after_20_);
        statistics_after_20_.resize(model.statistic_count);
        replica->export_statistics(statistics_after_20_);
      }
    }
    return losses;
  }

  static void expect_losses(const std::vector<double>& got, const json& want, std::size_t count,
                            double limit) {
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_NEAR(got[i] / want[i].get<double>(), 1.0, limit) << "step " << i;
  }

  static void expect_learnt(const std::vector<double>& losses) {
    if (losses.size() < 200) return;  // not to be seen yet
    EXPECT_LT(losses.back(), 0.01);
  }

  void expect_weights_after_20(const model::Model& model, const json& want) {
    for (const auto& parameter : model.parameters) {
      double squares = 0.0;
      for (std::size_t i = 0; i < parameter.size; ++i) {
        squares += std::pow(static_cast<double>(weights_after_20_[parameter.offset + i]), 2);
      }
      const json& entry = want[parameter.name];
      const double l2 = entry.contains("l2") ? entry["l2"].get<double>() : entry[1].get<double>();
      EXPECT_NEAR(std::sqrt(squares) / l2, 1.0, 1e-4) << parameter.name;
    }
  }

  json trace_;
  Images images_;
  std::vector<float> weights_after_20_;
  std::vector<float> statistics_after_20_;
};

constexpr kernels::OptimizerStep adam_step{.learning_rate = 1e-3};
constexpr kernels::OptimizerStep sgd_step{.learning_rate = 0.01, .momentum = 0.9};

TEST_F(GoldenFull, CnnGradientsMatch) { check_gradients(model::zoo().at("cnn").value(), "cnn", 2e-5); }

TEST_F(GoldenFull, CnnLossesUnderAdamMatch) {
  const auto cnn = model::zoo().at("cnn").value();
  const json& want = trace_["cnn"]["optimizers"]["adam"];
  const auto losses = train(cnn, "cnn", "adam", adam_step, dtrain::testing::golden_steps());
  expect_losses(losses, want["loss_f64"], 20, 1e-4);
  expect_learnt(losses);
  expect_weights_after_20(cnn, want["weights_after_20"]);
}

TEST_F(GoldenFull, CnnLossesUnderMomentumMatch) {
  const auto cnn = model::zoo().at("cnn").value();
  const json& want = trace_["cnn"]["optimizers"]["sgd_momentum"];
  const auto losses = train(cnn, "cnn", "sgd", sgd_step, dtrain::testing::golden_steps());
  expect_losses(losses, want["loss_f64"], 20, 1e-4);
  expect_learnt(losses);
  expect_weights_after_20(cnn, want["weights_after_20"]);
}

TEST_F(GoldenFull, ResNetGradientsMatch) { check_gradients(model::resnet9(8), "resnet9_w8", 5e-5); }

TEST_F(GoldenFull, ResNetFirstLossesMatch) {
  const auto resnet = model::resnet9(8);
  expect_losses(train(resnet, "resnet9_w8", "adam", adam_step, 3),
                trace_["resnet9_w8"]["optimizers"]["adam"]["loss_f64"], 3, 1e-4);
  expect_losses(train(resnet, "resnet9_w8", "sgd", sgd_step, 3),
                trace_["resnet9_w8"]["optimizers"]["sgd_momentum"]["loss_f64"], 3, 1e-4);
}

TEST_F(GoldenFull, TwoMicroBatchesAreTheJoinedBatch) {
  const auto cnn = model::zoo().at("cnn").value();
  auto replica = make_replica(cnn, "sgd", 32);
  replica->import_weights(initial(cnn, "cnn"));
  NoSink sink;
  for (const int batch : {0, 1}) {
    replica->forward(0, images_.batch(batch, 32));
    replica->backward(0, 1.0F / 64.0F, batch == 0, batch == 1, sink);
  }
  std::vector<float> gradients(cnn.parameter_count);
  replica->export_gradients(gradients);
  for (const auto& parameter : cnn.parameters) {
    double squares = 0.0;
    for (std::size_t i = 0; i < parameter.size; ++i) {
      squares += std::pow(static_cast<double>(gradients[parameter.offset + i]), 2);
    }
    const double want = trace_["cnn"]["two_replicas"]["joined_grad_l2_f64"][parameter.name];
    EXPECT_NEAR(std::sqrt(squares) / want, 1.0, 1e-5) << parameter.name;
  }
}

}  // namespace
