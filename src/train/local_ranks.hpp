#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "measure/step_record.hpp"
#include "train/failure.hpp"
#include "train/world.hpp"

namespace dtrain::train {

// What must be the same in all processes before their replicas may exchange flat buffers.
struct FlatLayout {
  std::uint64_t size = 0;  // floats
  std::uint64_t hash = 0;  // of where every parameter lies
  bool operator==(const FlatLayout&) const = default;
};

struct LocalStretch {
  std::vector<std::vector<measure::StepRecord>> ranks;  // of this process
  std::uint64_t bytes_sent = 0;                         // by its first rank
  std::uint64_t bytes_uncompressed = 0;                 // that it would have sent without compression
};

struct RankDescription {
  backend::MemoryUse memory;
  std::string weights_hash;   // of the whole model, as far as this rank has it
  bool devices_agree = true;  // all that it drives hold the same weights
};

// The ranks of a run that live in this process, each on a thread of its own that is pinned to the replica's
// cores. Between calls the threads sleep.
//
// A call in which a rank failed throws the cause, which names rank and step; the group, and the job where
// other processes take part, are then told, so that nobody waits for it.
class LocalRanks {
 public:
  explicit LocalRanks(WorldConfig config);
  ~LocalRanks();

  // Before each of the calls that all processes of the run make together: the order's number in its job, by
  // which a wait that fails can tell who is behind.
  void begin_order(std::uint64_t order);

  FlatLayout build();
  // Blocks until the other processes of the run do the same.
  void join(std::size_t flat_size);

  LocalStretch run(int steps);
  std::vector<Evaluation> evaluate(const std::shared_ptr<const datasets::Dataset>& dataset,
                                   std::span<const float> statistics);  // sums, by local rank
  // With weights, the ranks of all processes together: what lies elsewhere is brought to the replicas first.
  std::vector<RankDescription> describe(bool with_weights);
  double stamp_seconds();
  int stamps_per_step() const;

  // Of rank 0, which must be here; state() after describe(true).
  TrainingState state();
  double loss_scale() const;
  int steps_per_epoch() const;
  std::int64_t steps_taken() const;
  std::vector<float> weights(int rank);
  std::vector<float> gradients(int rank);

  // All ranks of the run together: rank 0 has the whole state, others need no more than its numbers.
  void load(const TrainingState& state);

  // Why the last call failed that needs all ranks to be sound; such calls repeat it.
  const std::optional<Failure>& failure() const;

  // "; gradients, 479 KB a bucket, go by ...", or nothing where no other process is needed.
  const std::string& exchange() const;

  // False where ranks hold parts: what is asked of rank 0 is then what describe(true) brought there.
  bool holds_whole_state() const;
  const WorldConfig& config() const;
  bool holds(int rank) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::train
