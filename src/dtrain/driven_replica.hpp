#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "dtrain/strategy.hpp"
#include "strategy/strategy.hpp"
#include "train/loss_scale.hpp"
#include "train/world.hpp"

namespace dtrain {

// A replica of a custom loop, with its end of the communicator and its strategy. All calls but the
// constructor and abort come from its own thread.
class DrivenReplica final : public Replica {
 public:
  // `config` outlives it. Usage error for a strategy without whole replicas.
  DrivenReplica(const train::WorldConfig& config, int rank);

  void build();
  void join(comm::LocalGroup* group, std::shared_ptr<strategy::Shared> shared);
  void release();
  void abort(const std::string& reason);  // ends the others' waits

  // A number for `next`.
  void add(std::shared_ptr<const datasets::Dataset> dataset);
  int steps_per_epoch(std::size_t dataset) const { return pipelines_[dataset]->steps_per_epoch(); }
  void rest() { strategy_->rest(); }
  std::int64_t step() const { return step_; }

  // All replicas together: what lies elsewhere is brought here.
  void collect_state();
  std::vector<float> statistics() const;
  std::vector<float> weights() const;
  // Sums, over a part of a data set.
  StepResult evaluate(const std::shared_ptr<const datasets::Dataset>& share,
                      std::span<const float> statistics);

  int id() const override { return rank_; }
  const Batch& next(const DistributedDataset& dataset) override;
  void forward(const Batch& batch) override;
  void backward(const Batch& batch) override;
  bool apply_gradients(std::optional<double> learning_rate) override;
  StepResult result() const override;
  backend::Replica& device() override { return *replica_; }

 private:
  enum class Stage { begin, forward_done, backward_done, all_backward_done };

  // Told of buckets; hands them on at once, or when backward is over (--no-overlap).
  class Buckets final : public backend::GradientSink {
   public:
    void open(strategy::RankStrategy& strategy, bool at_once);
    void bucket_ready(int bucket, backend::DeviceToken ready) override;
    void send_held();

   private:
    struct Held {
      int bucket = 0;
      backend::DeviceToken ready;
    };
    strategy::RankStrategy* strategy_ = nullptr;
    bool at_once_ = true;
    std::vector<Held> held_;
  };

  datasets::PipelineConfig pipeline_config() const;
  void expect(Stage stage, const char* call, const char* advice) const;
  void exchange_and_update(const kernels::OptimizerStep& update);
  backend::StepOutcome step_outcome() const;
  bool own_gradients_are_bad() const;
  void judge(const backend::StepOutcome& outcome, double learning_rate);
  [[noreturn]] void refuse(const char* what, bool own, double learning_rate) const;

  const train::WorldConfig* config_;
  int rank_;
  strategy::Assignment assignment_;
  bool loss_scaling_;
  std::unique_ptr<backend::Replica> replica_;
  std::vector<std::unique_ptr<datasets::Pipeline>> pipelines_;  // of distributed data sets
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<strategy::RankStrategy> strategy_;
  Buckets buckets_;

  Stage stage_ = Stage::begin;
  bool first_ = true;  // no image of this replica's in this step yet
  StepResult result_;
  std::int64_t step_ = 0;
  std::int64_t updates_ = 0;
  train::LossScale loss_scale_;
};

}  // namespace dtrain
