#pragma once

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/replica.hpp"
#include "base/aligned_buffer.hpp"

namespace dtrain::testing {

// What goes wrong, and when. `pass` counts a replica's forward passes from 0. Called on the replica's thread.
struct Faults {
  std::function<void(int rank)> make = nullptr;
  std::function<void(int rank, int pass)> forward = nullptr;
  std::function<float(int rank, int pass)> gradient = nullptr;  // added to the first gradient
  std::function<double(int rank, int pass)> loss = nullptr;     // added to the loss
  std::function<void(int rank)> evaluate = nullptr;
};

// Softmax regression on twelve numbers: the means of the quadrants of the three planes. Plain arithmetic in
// double; a flat buffer that is padded and, inside a slot, runs backwards, so that the order matters.
class FakeReplica : public backend::Replica {
 public:
  static constexpr int features = 12;
  static constexpr int classes = 10;

  FakeReplica(const backend::ReplicaConfig& config, std::shared_ptr<const Faults> faults,
              std::shared_ptr<std::atomic<int>> alive)
      : model_(config.model),
        rank_(config.device),
        faults_(std::move(faults)),
        alive_(std::move(alive)),
        optimizer_(&kernels::optimizers().at(config.optimizer).value),
        statistics_(config.model->statistic_count) {
    std::size_t offset = 0;
    for (std::size_t p = 0; p < model_->parameters.size(); ++p) {
      const std::size_t padded = (model_->parameters[p].size + 15) / 16 * 16;
      slots_.push_back({static_cast<int>(p), {offset, model_->parameters[p].size}});
      buckets_.insert(buckets_.begin(), backend::Range{offset, padded});
      offset += padded;
    }
    weights_ = AlignedBuffer<float>(offset);
    gradients_ = AlignedBuffer<float>(offset);
    states_.emplace_back(offset);
    states_.emplace_back(offset);
    deltas_.resize(static_cast<std::size_t>(config.max_batch) * classes);
    inputs_.resize(static_cast<std::size_t>(config.max_batch) * features);
    max_batch_ = config.max_batch;
    ++*alive_;
  }
  ~FakeReplica() override { --*alive_; }

  backend::InputFormat input_format() const override { return backend::InputFormat::nchw; }
  std::span<const backend::Slot> slots() const override { return slots_; }
  std::span<const backend::Range> buckets() const override { return buckets_; }
  std::span<float> weights() override { return weights_.span(); }
  std::span<float> gradients() override { return gradients_.span(); }
  std::span<float> optimizer_state(int index) override {
    return states_[static_cast<std::size_t>(index)].span();
  }
  void import_statistics(std::span<const float> values) override {
    std::ranges::copy(values, statistics_.begin());
  }
  void export_statistics(std::span<float> values) override { std::ranges::copy(statistics_, values.begin()); }

  void import_weights(std::span<const float> canonical) override {
    for_each_element([&](std::size_t flat, std::size_t canon) { weights_.span()[flat] = canonical[canon]; });
  }
  void export_weights(std::span<float> canonical) override {
    for_each_element([&](std::size_t flat, std::size_t canon) { canonical[canon] = weights_.span()[flat]; });
  }
  void export_gradients(std::span<float> canonical) override {
    for_each_element(
        [&](std::size_t flat, std::size_t canon) { canonical[canon] = gradients_.span()[flat]; });
  }

  void forward(int, const backend::Batch& batch) override {
    if (batch.count < 1 || batch.count > max_batch_) throw std::logic_error("batch of a size not agreed on");
    if (faults_->forward) faults_->forward(rank_, pass_);
    pass_result_ = compute(batch);
    if (faults_->loss) pass_result_.loss_sum += faults_->loss(rank_, pass_);
    if (!statistics_.empty()) statistics_[0] += 1.0F + static_cast<float>(rank_);
    ++pass_;
  }

  void backward(int, float gradient_scale, bool first, bool last, backend::GradientSink& sink) override {
    if (first) clear_gradients();
    result_.loss_sum += pass_result_.loss_sum;
    result_.correct += pass_result_.correct;
    result_.count += pass_result_.count;
    for (int image = 0; image < pass_result_.count; ++image) {
      for (int c = 0; c < classes; ++c) {
        const double delta = deltas_[static_cast<std::size_t>(image * classes + c)] * gradient_scale;
        bias(gradients_)[-c] += static_cast<float>(delta);
        for (int f = 0; f < features; ++f) {
          weight(gradients_)[-(c * features + f)] +=
              static_cast<float>(delta * inputs_[static_cast<std::size_t>(image * features + f)]);
        }
      }
    }
    if (faults_->gradient) weight(gradients_)[0] += faults_->gradient(rank_, pass_ - 1);
    for (int bucket = 0; last && bucket < static_cast<int>(buckets_.size()); ++bucket) {
      const backend::Range range = buckets_[static_cast<std::size_t>(bucket)];
      if (!kernels::all_finite(gradients().subspan(range.offset, range.size))) outcome_.own_finite = false;
      sink.bucket_ready(bucket, {});
    }
  }

  void clear_gradients() override {
    std::ranges::fill(gradients_.span(), 0.0F);
    result_ = {};
    outcome_ = {};
  }

  backend::BatchResult result(int) override { return result_; }

  void update(backend::Range range, const kernels::OptimizerStep& step, bool guarded) override {
    const auto part = [&](std::span<float> values) { return values.subspan(range.offset, range.size); };
    outcome_.applied = !guarded || kernels::all_finite(part(gradients()));
    if (!outcome_.applied) return;
    outcome_.applied = optimizer_->update(part(weights()), part(gradients()), part(optimizer_state(0)),
                                          part(optimizer_state(1)), step);
    outcome_.weights_finite = kernels::all_finite(part(weights()));
  }
  backend::StepOutcome outcome() override { return outcome_; }

  backend::BatchResult evaluate(const backend::Batch& batch) override {
    if (faults_->evaluate) faults_->evaluate(rank_);
    backend::BatchResult result = compute(batch);
    if (!statistics_.empty()) result.loss_sum += static_cast<double>(statistics_[0]) * batch.count;
    return result;
  }

  backend::Mark mark() override { return {now_ns()}; }
  std::int64_t time_ns(backend::Mark mark) override { return mark.value; }
  void synchronize(const Deadline&) override {}
  backend::MemoryUse memory() const override {
    const std::size_t bytes = 4 * weights_.size() * sizeof(float) + static_cast<std::size_t>(rank_);
    return {bytes, bytes};
  }

 private:
  template <class Visit>
  void for_each_element(const Visit& visit) const {
    for (const auto& slot : slots_) {
      const auto& parameter = model_->parameters[static_cast<std::size_t>(slot.parameter)];
      for (std::size_t i = 0; i < parameter.size; ++i) {
        visit(slot.range.offset + parameter.size - 1 - i, parameter.offset + i);
      }
    }
  }

  // The first element, from which the others go backwards. The last two parameters are those of the dense
  // layer.
  float* last_of(AlignedBuffer<float>& buffer, std::size_t slot) {
    return buffer.data() + slots_[slot].range.offset + slots_[slot].range.size - 1;
  }
  float* weight(AlignedBuffer<float>& buffer) { return last_of(buffer, slots_.size() - 2); }
  float* bias(AlignedBuffer<float>& buffer) { return last_of(buffer, slots_.size() - 1); }

  backend::BatchResult compute(const backend::Batch& batch) {
    backend::BatchResult result;
    result.count = batch.count;
    for (int image = 0; image < batch.count; ++image) {
      double* input = inputs_.data() + static_cast<std::ptrdiff_t>(image) * features;
      reduce_image(batch.images + static_cast<std::ptrdiff_t>(image) * 3072, input);
      double* delta = deltas_.data() + static_cast<std::ptrdiff_t>(image) * classes;
      const int label = batch.labels[image];
      result.loss_sum += classify(input, delta, label);
      const auto best = std::max_element(delta, delta + classes) - delta;
      delta[label] -= 1.0;
      result.correct += best == label ? 1 : 0;
    }
    return result;
  }

  static void reduce_image(const float* pixels, double* input) {
    std::fill(input, input + features, 0.0);
    for (int i = 0; i < 3072; ++i) {
      const int quadrant = (i % 1024 / 512) * 2 + (i % 32 / 16);
      input[i / 1024 * 4 + quadrant] += static_cast<double>(pixels[i]) / 256.0;
    }
  }

  // Probabilities; returns the loss.
  double classify(const double* input, double* probabilities, int label) {
    double sum = 0.0;
    for (int c = 0; c < classes; ++c) {
      double logit = bias(weights_)[-c];
      for (int f = 0; f < features; ++f)
        logit += static_cast<double>(weight(weights_)[-(c * features + f)]) * input[f];
      probabilities[c] = std::exp(logit);
      sum += probabilities[c];
    }
    for (int c = 0; c < classes; ++c) probabilities[c] /= sum;
    return -std::log(probabilities[label]);
  }

  const model::Model* model_;
  int rank_;
  int max_batch_ = 0;
  int pass_ = 0;
  std::shared_ptr<const Faults> faults_;
  std::shared_ptr<std::atomic<int>> alive_;
  const kernels::Optimizer* optimizer_;
  std::vector<backend::Slot> slots_;
  std::vector<backend::Range> buckets_;
  AlignedBuffer<float> weights_;
  AlignedBuffer<float> gradients_;
  std::vector<AlignedBuffer<float>> states_;
  std::vector<float> statistics_;
  std::vector<double> inputs_;
  std::vector<double> deltas_;
  backend::BatchResult pass_result_;
  backend::BatchResult result_;
  backend::StepOutcome outcome_;
};

class FakeBackend final : public backend::Backend {
 public:
  explicit FakeBackend(Faults faults = {}) : faults_(std::make_shared<Faults>(std::move(faults))) {}

  std::string name() const override { return "fake"; }
  std::vector<backend::DeviceInfo> devices() const override { return {}; }
  std::vector<std::string> libraries() const override { return {}; }
  std::vector<std::string> check_precision(config::Precision) const override { return {}; }
  std::size_t estimate_memory(const backend::ReplicaConfig&) const override { return 0; }
  std::unique_ptr<backend::Replica> make_replica(const backend::ReplicaConfig& config) const override {
    if (faults_->make) faults_->make(config.device);
    return std::make_unique<FakeReplica>(config, faults_, alive_);
  }

  int alive() const { return *alive_; }  // replicas

 private:
  std::shared_ptr<const Faults> faults_;
  std::shared_ptr<std::atomic<int>> alive_ = std::make_shared<std::atomic<int>>(0);
};

inline model::Layer layer(const std::string& name, model::Operation operation, int input) {
  model::Layer layer;
  layer.name = name;
  layer.operation = operation;
  layer.inputs = {input};
  return layer;
}

inline model::Model softmax_regression() {
  const model::Dense dense{.out_features = FakeReplica::classes};
  return model::build("softmax", {FakeReplica::features, 1, 1}, FakeReplica::classes,
                      {layer("dense", dense, model::image_input)});
}

// With batch statistics, of which the fake makes a count of its passes.
inline model::Model normalised_softmax_regression() {
  const model::Dense dense{.out_features = FakeReplica::classes};
  return model::build("softmax_bn", {FakeReplica::features, 1, 1}, FakeReplica::classes,
                      {layer("norm", model::BatchNorm{}, model::image_input), layer("dense", dense, 0)});
}

}  // namespace dtrain::testing
