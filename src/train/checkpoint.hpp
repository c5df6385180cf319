#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "measure/samples.hpp"
#include "train/world.hpp"

namespace dtrain::train {

// What must be the same for a run to go on as if it had never stopped.
struct CheckpointIdentity {
  std::string model;
  std::uint64_t parameters = 0;
  std::string optimizer;
  std::string precision;
  std::uint64_t seed = 0;
  int global_batch = 0;
  int shuffle = 0;
  bool augment = false;
  std::string last_batch;
  std::string data_checksum;
};

CheckpointIdentity identity_of(const config::Options& options, const config::RunPlan& plan,
                               const model::Model& model, const datasets::Dataset& data);

struct Checkpoint {
  CheckpointIdentity identity;
  TrainingState state;
  std::vector<measure::EvaluationSample> evaluations;  // so far
  std::vector<double> losses;                          // of every step so far
};

// File, little endian: "dtrainCP", u32 version, u32 bytes of header, u64 bytes of file; JSON header; float32
// weights, optimizer states, statistics; float64 losses; u64 Hash of all before. Replaced in one step.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

// Data errors say what is wrong: no checkpoint, another version, cut short, changed.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// Data error that names every difference.
void require_same_run(const std::filesystem::path& path, const CheckpointIdentity& found,
                      const CheckpointIdentity& wanted);

}  // namespace dtrain::train
