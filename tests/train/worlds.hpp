#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../strategy/fake_replica.hpp"
#include "base/random.hpp"
#include "train/world.hpp"

namespace dtrain::testing {

// Images in memory whose colour and quadrants tell their class, with noise.
class MemoryDataset final : public datasets::Dataset {
 public:
  MemoryDataset(std::size_t size, std::uint64_t seed)
      : pixels_(size * datasets::pixels_per_image), labels_(size) {
    Random random(seed);
    for (std::size_t i = 0; i < size; ++i) {
      labels_[i] = static_cast<int>(random.below(10));
      for (std::size_t p = 0; p < datasets::pixels_per_image; ++p) {
        const int block = static_cast<int>(p / 1024 * 4 + (p % 1024 / 512) * 2 + (p % 32 / 16));
        const int level = 100 + 60 * static_cast<int>(mix(labels_[i], block) % 2);
        pixels_[i * datasets::pixels_per_image + p] = static_cast<std::uint8_t>(level + random.below(80));
      }
    }
  }

  const std::string& name() const override { return name_; }
  std::size_t size() const override { return labels_.size(); }
  int label(std::size_t index) const override { return labels_[index]; }
  std::span<const std::uint8_t, datasets::pixels_per_image> pixels(std::size_t index) const override {
    return std::span<const std::uint8_t, datasets::pixels_per_image>(
        pixels_.data() + index * datasets::pixels_per_image, datasets::pixels_per_image);
  }
  std::string checksum() const override { return fmt::format("memory-{}", labels_.size()); }

 private:
  std::string name_ = "memory";
  std::vector<std::uint8_t> pixels_;
  std::vector<int> labels_;
};

// A world to be, with everything it points to.
struct WorldSetup {
  explicit WorldSetup(int replicas = 2, int global_batch = 12, Faults faults = {},
                      model::Model model = softmax_regression(), std::size_t images = 60)
      : backend(std::make_shared<FakeBackend>(std::move(faults))) {
    options.optimizer = "sgd";
    options.learning_rate = 0.05;
    options.shuffle = 50;
    options.timeout = Seconds(20.0);
    options.bucket_mb = 0.0001;
    config.options = &options;
    config.model = std::make_shared<const model::Model>(std::move(model));
    config.backend = backend;
    config.data.train = std::make_shared<MemoryDataset>(images, 1);
    config.data.test = std::make_shared<MemoryDataset>(37, 2);
    config.stop = &stop;
    use("mirrored", replicas, global_batch);
  }

  void use(const std::string& strategy, int replicas, int global_batch) {
    config.strategy = strategy::strategies().at(strategy).value;
    config.plan.id = fmt::format("{}-{}", strategy, replicas);
    config.plan.strategy = strategy;
    config.plan.replicas = replicas;
    config.plan.global_batch = global_batch;
    config.plan.replica_batch.clear();
    for (int rank = 0; rank < replicas; ++rank) {
      const int share = config::share_of(global_batch, rank, replicas);
      config.plan.replica_batch.push_back((share + options.accumulate - 1) / options.accumulate);
    }
    config.plan.simulated = true;  // tests share cores, so waits should sleep
    config.schedule = train::schedules().at("constant").value({.peak = options.learning_rate});
  }

  config::Options options;
  std::atomic<bool> stop{false};
  std::shared_ptr<FakeBackend> backend;
  train::WorldConfig config;
};

// The error of a call that must throw one.
template <class Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& other) {
    return {ErrorCategory::usage, fmt::format("not a dtrain::Error: {}", other.what()), ""};
  }
  return {ErrorCategory::usage, "nothing was thrown", ""};
}

}  // namespace dtrain::testing
