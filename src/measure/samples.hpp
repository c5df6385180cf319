#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/device_condition.hpp"
#include "config/plan.hpp"

namespace dtrain::measure {

// Mean seconds a step that one rank spent in each phase during one round. input + forward + backward +
// communication + update + host = the rank's mean step; straggler_wait is the part of communication between
// the rank's own arrival and the last rank's.
struct RankPhases {
  double input = 0.0;
  double forward = 0.0;
  double backward = 0.0;
  double communication = 0.0;
  double update = 0.0;
  double fused = 0.0;  // forward, backward, collectives and update, where they are one program
  double host = 0.0;   // what no stamp covers
  double straggler_wait = 0.0;
  double last_arrivals = 0.0;  // share of steps in which this rank arrived last
  double lateness = 0.0;       // mean seconds by which its way there took longer than the others'
  bool arrival_measured = false;
};

// One round of one run: the independent sample.
struct RoundSample {
  std::int64_t images = 0;  // really consumed, by all ranks
  int steps = 0;
  double seconds = 0.0;       // of the slowest rank, by the device's clock
  double wall_seconds = 0.0;  // by the host's, around the stretch; 0 = not measured
  int warmup_steps = 0;
  double calibration_seconds = 0.0;  // the fixed kernel, timed beside this round: the machine's own speed
  std::vector<RankPhases> ranks;
  std::vector<double> step_seconds;  // of the slowest rank; thinned evenly above `max_kept_steps`
};

inline constexpr std::size_t max_kept_steps = 2000;

// What else happened on the machine while a run's rounds were measured.
struct NoiseReading {
  double foreign_load = 0.0;        // cores other processes kept busy, mean over the run's rounds
  double stolen = 0.0;              // cores the hypervisor took
  double throttled_seconds = 0.0;   // by the control group's CPU quota, added over CPUs and rounds
  double calibration_spread = 0.0;  // (max - min) / median of the calibration kernel
  // Of each device: lowest clock, highest temperature and power, most of the others, all that slowed it.
  std::vector<config::DeviceCondition> devices{};
};

// How old the weights of gradients were, in updates by others; steps of all ranks, warm-up included.
struct Staleness {
  std::vector<std::uint64_t> counts;  // by staleness

  void add(int staleness) {
    const auto index = static_cast<std::size_t>(staleness);
    if (counts.size() <= index) counts.resize(index + 1);
    ++counts[index];
  }
  int max() const { return counts.empty() ? 0 : static_cast<int>(counts.size()) - 1; }
  double mean() const;
};

struct EvaluationSample {
  int epoch = 0;
  double seconds = 0.0;  // training time so far, evaluation left out
  double loss = 0.0;
  double accuracy = 0.0;
};

// What a strategy says of a run beside what every run has.
struct Fact {
  std::string name;  // "bubble_share"
  double value = 0.0;
  std::string unit;  // "share", "bytes", "s", "count"
  std::string meaning;
};

// Bytes that one rank's replica holds.
struct RankMemory {
  std::size_t allocated = 0;
  std::size_t peak = 0;
  std::size_t weights = 0;
  std::size_t gradients = 0;
  std::size_t optimizer = 0;
  std::size_t activations = 0;
};

struct RunSamples {
  config::RunPlan plan;
  std::vector<RoundSample> rounds;
  std::vector<double> losses;  // every measured or warm-up step's mean over the global batch, in order
  std::vector<EvaluationSample> evaluations;
  NoiseReading noise;
  std::uint64_t bytes_sent = 0;          // by rank 0, over measured rounds
  std::uint64_t bytes_uncompressed = 0;  // the same, if nothing were compressed
  std::optional<Staleness> staleness;    // none where updates wait for all
  std::uint64_t dropped_gradients = 0;   // that came too late to be used, warm-up included
  std::uint64_t measured_steps = 0;
  std::uint64_t skipped_steps = 0;
  std::size_t replica_bytes = 0;        // the largest replica's own allocations
  std::size_t replica_peak_bytes = 0;   // most that a replica held from its device
  std::vector<RankMemory> rank_memory;  // by rank
  std::vector<Fact> facts;              // of the strategy
  std::string division;                 // of the model over ranks, by the strategy's own choice
  std::string weights_hash;             // of rank 0's weights after the last step
  bool weights_agree = true;            // all ranks had that hash
  double stamp_seconds = 0.0;           // cost of one stamp, measured
  int stamps_per_step = 0;              // by one rank
  std::string failure;                  // why it ended early; empty = it did not
  std::vector<std::string> notes;
};

struct Samples {
  std::vector<RunSamples> runs;  // plain base first, then ascending in replicas
  std::size_t peak_process_bytes = 0;
  bool complete = false;  // the protocol ran to its end; says nothing of failures
};

}  // namespace dtrain::measure
