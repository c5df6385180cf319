#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::config {

// What launchers left in the environment. `source` names the one that counts; `notes` says what was seen and
// why it was or was not used.
struct LaunchEnvironment {
  std::string source = "none";
  int rank = 0;
  int world = 1;
  std::vector<std::string> notes;
};

using EnvironmentLookup = std::function<std::optional<std::string>(const std::string&)>;

EnvironmentLookup process_environment();

// Reads TF_CONFIG and the variables of torchrun, Open MPI, PMI and SLURM. Usage error when one is malformed,
// when two disagree, or when several workers are described but `strategy` runs on one machine only.
LaunchEnvironment read_launch_environment(const EnvironmentLookup& lookup, bool strategy_spans_workers);

// The variables a result file may record: devices, threads, launchers. Never the whole environment, which
// holds secrets.
std::vector<std::pair<std::string, std::string>> recorded_environment();
// The same of a given list of "NAME=value", ended by a null pointer.
std::vector<std::pair<std::string, std::string>> recorded_environment(const char* const* variables);

}  // namespace dtrain::config
