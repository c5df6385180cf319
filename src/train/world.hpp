#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "config/plan.hpp"
#include "datasets/dataset.hpp"
#include "datasets/pipeline.hpp"
#include "measure/live.hpp"
#include "measure/protocol.hpp"
#include "model/model.hpp"
#include "strategy/strategy.hpp"
#include "train/schedule.hpp"

namespace dtrain::train {

struct WorldConfig {
  const config::Options* options = nullptr;
  config::RunPlan plan;
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<const backend::Backend> backend;
  std::shared_ptr<const strategy::Strategy> strategy;
  std::string communicator = "shared_memory";
  datasets::Cifar10 data;
  std::shared_ptr<const Schedule> schedule;
  std::vector<config::InjectedDelay> delays;  // none for base runs
  std::shared_ptr<measure::LiveStep> live;    // may be null
  const std::atomic<bool>* stop = nullptr;    // may be null
};

// Everything that a training run is, apart from its data: what a checkpoint holds.
struct TrainingState {
  std::int64_t step = 0;
  double loss_scale = 1.0;
  int good_steps = 0;                         // since the loss scale last changed
  std::vector<float> weights;                 // canonical order
  std::vector<std::vector<float>> optimizer;  // canonical order
  std::vector<float> statistics;              // batch norms' running values of rank 0
};

struct Evaluation {
  double loss = 0.0;
  double accuracy = 0.0;
  std::int64_t images = 0;
};

// The replicas of one run, each on a thread of its own that is pinned to the replica's cores and lives as
// long as the world does. Between calls the threads sleep.
class World final : public measure::Subject {
 public:
  explicit World(WorldConfig config);
  ~World() override;

  const config::RunPlan& plan() const override;
  measure::StretchRecord run(int steps) override;
  void describe(measure::RunSamples& samples) override;

  Evaluation evaluate(const datasets::Dataset& dataset);
  int steps_per_epoch() const;

  TrainingState save_state();
  void load_state(const TrainingState& state);

  // Canonical order, of one rank.
  std::vector<float> weights(int rank);
  std::vector<float> gradients(int rank);
  std::vector<std::string> weight_hashes();
  const std::vector<double>& losses() const;  // of every step so far: mean over the global batch

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::train
