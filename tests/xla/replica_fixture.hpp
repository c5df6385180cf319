#pragma once

#include <gtest/gtest.h>

#include "backend/backend.hpp"
#include "base/random.hpp"
#include "make_xla_replica.hpp"
#include "model/zoo.hpp"

namespace dtrain::testing {

using backend::Batch;
using backend::MicroStep;
using backend::xla::Group;

inline Deadline patience() { return Deadline::in(Seconds(300.0)); }

class NoSink final : public backend::GradientSink {
 public:
  void bucket_ready(int, backend::DeviceToken) override {}
};

struct Images {
  explicit Images(int count, std::uint64_t seed = 1) : labels(static_cast<std::size_t>(count)) {
    Random random(seed);
    pixels.resize(static_cast<std::size_t>(count) * 3072);
    for (float& pixel : pixels) pixel = static_cast<float>(random.normal());
    for (auto& label : labels) label = static_cast<std::int32_t>(random.below(10));
  }
  Batch part(int first, int count) const {
    return {.images = pixels.data() + static_cast<std::size_t>(first) * 3072,
            .labels = labels.data() + first,
            .count = count};
  }
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};

inline model::Model make_model(const std::string& name) {
  return name == "resnet9_w8" ? model::resnet9(8) : model::zoo().at(name).value();
}

// What there is to see of a replica after some steps.
struct Seen {
  double loss = 0.0;
  int correct = 0;
  std::vector<float> gradients;
  std::vector<float> weights;
  std::vector<float> statistics;
  std::vector<float> state;
};

class XlaReplicaTest : public ::testing::Test {
 protected:
  backend::ReplicaConfig config(const model::Model& model, int batch) const {
    backend::ReplicaConfig config;
    config.model = &model;
    config.max_batch = batch;
    config.precision = precision_;
    config.optimizer = optimizer_;
    return config;
  }

  std::unique_ptr<backend::xla::XlaReplica> devices(const model::Model& model, int batch, int count) {
    auto made = make_xla_replica(config(model, batch), count);
    made->import_weights(model::initial_weights(model, 3));
    return made;
  }
  std::unique_ptr<backend::Replica> cpu(const model::Model& model, int batch) {
    auto made = backend::backend_for("cpu")->make_replica(config(model, batch));
    made->import_weights(model::initial_weights(model, 3));
    return made;
  }

  MicroStep micro(const Batch& batch, int step_images, bool first, bool last, long step = 1) const {
    MicroStep micro;
    micro.batch = batch;
    micro.gradient_scale = 1.0F / static_cast<float>(step_images);
    micro.step_images = step_images;
    micro.first = first;
    micro.last = last;
    micro.update.step = step;
    micro.update.learning_rate = learning_rate_;
    micro.update.weight_decay = weight_decay_;
    micro.update.epsilon = 1e-2;  // so that adam does not blow up what is left of a gradient near zero
    return micro;
  }

  static Seen look(backend::Replica& replica, const model::Model& model) {
    replica.synchronize(patience());
    Seen seen;
    seen.loss = replica.result(0).loss_sum;
    seen.correct = replica.result(0).correct;
    seen.gradients.resize(model.parameter_count);
    seen.weights.resize(model.parameter_count);
    seen.state.resize(model.parameter_count);
    seen.statistics.resize(model.statistic_count);
    replica.export_gradients(seen.gradients);
    replica.export_weights(seen.weights);
    replica.export_optimizer_state(0, seen.state);
    replica.export_statistics(seen.statistics);
    return seen;
  }

  // The same micro-steps on the CPU backend.
  static void take(backend::Replica& replica, const MicroStep& micro) {
    NoSink sink;
    replica.forward(0, micro.batch);
    replica.backward(0, micro.gradient_scale, micro.first, micro.last, sink);
    if (micro.last) replica.update({0, replica.weights().size()}, micro.update, false);
  }

  static void expect_near(const std::vector<float>& got, const std::vector<float>& want, double limit,
                          const char* what) {
    double largest = 1e-20;
    double gap = 0.0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::abs(want[i])));
      gap = std::max(gap, static_cast<double>(std::abs(got[i] - want[i])));
    }
    EXPECT_LE(gap / largest, limit) << what;
  }
  static void expect_same(const Seen& got, const Seen& want, double limit) {
    EXPECT_NEAR(got.loss / want.loss, 1.0, limit);
    EXPECT_EQ(got.correct, want.correct);
    expect_near(got.gradients, want.gradients, limit, "gradients");
    expect_near(got.weights, want.weights, limit, "weights");
    expect_near(got.statistics, want.statistics, limit, "statistics");
    expect_near(got.state, want.state, limit, "optimizer state");
  }

  config::Precision precision_ = config::Precision::fp32;
  std::string optimizer_ = "sgd";
  double learning_rate_ = 0.05;  // what an update did is to be seen in the weights
  double weight_decay_ = 0.0;
};

}  // namespace dtrain::testing
