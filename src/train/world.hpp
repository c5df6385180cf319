#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "cluster/member.hpp"
#include "config/plan.hpp"
#include "datasets/dataset.hpp"
#include "datasets/pipeline.hpp"
#include "measure/live.hpp"
#include "measure/protocol.hpp"
#include "model/model.hpp"
#include "strategy/strategy.hpp"
#include "train/schedule.hpp"

namespace dtrain::train {

class Leader;

// What is pointed to outlives the world.
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

  // Where other processes of a job take part; else as they are here.
  cluster::Member* member = nullptr;
  std::vector<int> members;        // that take part, ascending: workers, then parameter servers
  std::shared_ptr<Leader> leader;  // on the chief
  cluster::TlsFiles tls;           // of parameter servers
  std::string name;                // of this making of the run, given by the leader
};

// Everything that a training run is, apart from its data: what a checkpoint holds.
struct TrainingState {
  std::int64_t step = 0;     // steps taken, skipped ones too
  std::int64_t updates = 0;  // of the optimizer
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
// long as the world does. Between calls the threads sleep. Calls come from one thread at a time.
//
// Errors name rank and step (from 1) and are the first cause, whichever rank noticed it. A world whose
// replicas failed or were interrupted repeats that error in every later run(), evaluate() and load_state().
class World final : public measure::Subject {
 public:
  // Throws what the backend, data and communicator throw, naming the rank.
  explicit World(WorldConfig config);
  ~World() override;

  const config::RunPlan& plan() const override;
  measure::StretchRecord run(int steps) override;
  void describe(measure::RunSamples& samples) override;
  std::vector<config::DeviceCondition> conditions() override;
  std::vector<int> processes() const override;

  // The loss (mean) and accuracy over all images, in inference mode with rank 0's batch statistics.
  Evaluation evaluate(const std::shared_ptr<const datasets::Dataset>& dataset);
  int steps_per_epoch() const;

  TrainingState save_state();
  // Goes on from `state` as if this world had taken all its steps.
  void load_state(const TrainingState& state);
  std::int64_t steps_taken() const;

  // Canonical order, of one rank. Gradients are the last step's, loss scale taken out.
  std::vector<float> weights(int rank);
  std::vector<float> gradients(int rank);
  std::vector<std::string> weight_hashes();
  // Of every step since the world was made or a state was loaded: mean over the global batch.
  const std::vector<double>& losses() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::train
