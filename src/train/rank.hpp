#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/failure.hpp"
#include "train/loss_scale.hpp"
#include "train/phase_delays.hpp"
#include "train/stamps.hpp"
#include "train/world.hpp"

namespace dtrain::train {

// One replica with its data, its end of the communicator and its strategy. All calls but the constructor come
// from the rank's own thread. Ranks lie beside each other, so each begins a cache line.
class alignas(64) Rank {
 public:
  Rank(const WorldConfig& config, const FailureLog& failures, int rank);

  void build();  // replica and pipeline
  // Null without collectives, or with nothing to share.
  void join(comm::LocalGroup* group, std::shared_ptr<strategy::Shared> shared);
  void release();  // what was built and joined
  // Ends the waits of all other ranks.
  void abort(const std::string& reason);

  // One record a step.
  void run(std::span<measure::StepRecord> records);
  Evaluation evaluate(const std::shared_ptr<const datasets::Dataset>& share);  // sums, not means

  TrainingState state();
  // All ranks together. What lies with other ranks is then known here, until the next step.
  void collect_state();
  bool holds_whole_state() const { return !holds_part() && !strategy_->shares_state(); }
  bool holds_part() const { return assignment_.part.has_value(); }
  std::pair<int, int> share() const { return {assignment_.share, assignment_.shares}; }
  // All ranks together. A state without weights is rank 0's, which hands them on.
  void load(const TrainingState& state);
  std::vector<float> weights();
  std::vector<float> gradients();
  double stamp_seconds();

  int number() const { return rank_; }
  std::int64_t step() const { return step_; }
  std::int64_t updates() const { return updates_; }
  double loss_scale() const { return loss_scale_.scale; }
  int stamps_per_step() const { return stamps_ ? stamps_->count() : 0; }
  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_uncompressed() const;
  // Of where every parameter lies in the flat buffers.
  std::uint64_t layout_hash();
  void import_statistics(std::span<const float> whole);
  backend::Replica& replica() { return *replica_; }
  const datasets::Pipeline& pipeline() const { return *pipeline_; }

 private:
  // The numbers of one micro-step, and what it belongs to.
  struct Pass {
    backend::MicroStep micro;
    bool delayed = false;  // delays are per step: the first micro-step takes them
  };

  // Canonical order, of the whole model.
  struct WholeState {
    std::vector<float> weights;
    std::vector<float> gradients;
    std::vector<std::vector<float>> optimizer;
    std::vector<float> statistics;
  };
  // What the replica has: the whole, or its part.
  WholeState own_state();
  void set_own_state(const WholeState& state);
  std::vector<float> join_parts(std::span<const float> own, const std::vector<model::Piece>& pieces,
                                std::size_t size);
  void share_from_first(std::vector<float>& values, std::size_t size);
  const model::Model& own_model() const {
    return assignment_.part ? *assignment_.part->model : *config_->model;
  }
  backend::BatchResult step_result();
  void enqueue_fused();
  void enqueue_computation();

  bool spans() const { return config_->members.size() > 1; }
  void import_state(const TrainingState& state);
  void receive_state();
  void take_step(measure::StepRecord& record);
  void compute_gradients(measure::StepRecord& record, double scale);
  datasets::MicroBatch next_batch();
  void prefetch();
  void enqueue();  // what pass_ says, and what follows a step's last micro-step
  void enqueue_backward();
  void run_micro_step();
  void wait_for_device();
  backend::StepOutcome step_outcome();
  bool own_gradients_finite();
  void finish(bool applied);
  NotFinite not_finite(const char* what, bool own) const;
  void show(const measure::StepRecord& record) const;
  void poll() const;
  void delay(config::Phase phase) const {
    delays_.wait(phase, [this] { poll(); });
  }
  datasets::PipelineConfig pipeline_config() const;
  void prepare_steps();

  const WorldConfig* config_;
  const FailureLog* failures_;
  int rank_;
  strategy::Assignment assignment_;
  std::optional<WholeState> whole_;  // since collect_state, where the replica has less
  bool loss_scaling_;
  PhaseDelays delays_;

  std::unique_ptr<backend::Replica> replica_;
  std::unique_ptr<datasets::Pipeline> pipeline_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<strategy::RankStrategy> strategy_;
  std::optional<Stamps> stamps_;

  std::int64_t step_ = 0;     // taken
  std::int64_t updates_ = 0;  // of the optimizer
  LossScale loss_scale_;
  double last_scale_ = 1.0;  // that the gradients in place carry
  Pass pass_;
  std::optional<datasets::MicroBatch> prefetched_;        // its images are with the replica
  bool record_ = false;                                   // steps may be recorded and replayed
  bool enqueued_ = false;                                 // the micro-step's calls were made, not replayed
  std::map<Stamps::Kind, std::uint64_t> recorded_bytes_;  // that a replay of this kind sends
  std::uint64_t replayed_bytes_ = 0;                      // of which the communicator does not know
};

}  // namespace dtrain::train
