#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::config {

// One process of a job.
struct Task {
  std::string role = "worker";  // chief, worker, ps
  int index = 0;                // among its role
  std::string address;          // host:port; empty where the launcher gives none
};

// This process's place in a job, from flags or from what launchers left in the environment. `source` names
// the one that counts; `notes` says what was seen and why it was or was not used.
struct LaunchEnvironment {
  std::string source = "none";
  int rank = 0;  // among tasks
  int world = 1;
  std::vector<Task> tasks;        // by rank: chief, workers, parameter servers; empty for a single process
  bool evaluator = false;         // watches the job without being in it
  std::string rendezvous;         // host:port of rank 0; empty where only MPI can tell it
  std::optional<int> local_rank;  // among the job's processes on this host, where the launcher tells
  std::optional<int> local_world;
  std::vector<std::string> notes;

  bool alone() const { return world == 1; }
  int workers() const;  // chief and workers, which hold replicas
  int servers() const;
};

// What a user says of the cluster on the command line.
struct ClusterFlags {
  std::string launcher = "auto";  // flags, tf_config, torchrun, openmpi, pmi, slurm, none: the one to believe
  std::string rendezvous;         // host:port of rank 0, for launchers that give no addresses
  std::vector<std::string> worker_hosts;
  std::vector<std::string> ps_hosts;
  std::string task_type;  // chief, worker, ps
  std::optional<int> task_index;
};

using EnvironmentLookup = std::function<std::optional<std::string>(const std::string&)>;

EnvironmentLookup process_environment();

// Reads flags, TF_CONFIG and the variables of torchrun, Open MPI, PMI and SLURM, in this order of precedence.
// Usage error when one is malformed, when two disagree and no launcher was chosen, or when several workers
// are described but the strategy runs on one machine only; `spanning` are those to use instead, empty where
// it does span workers.
LaunchEnvironment read_launch_environment(const EnvironmentLookup& lookup, const ClusterFlags& flags,
                                          const std::vector<std::string>& spanning = {});

// The variables a result file may record: devices, threads, launchers. Never the whole environment, which
// holds secrets.
std::vector<std::pair<std::string, std::string>> recorded_environment();
// The same of a given list of "NAME=value", ended by a null pointer.
std::vector<std::pair<std::string, std::string>> recorded_environment(const char* const* variables);

}  // namespace dtrain::config
