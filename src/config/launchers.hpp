#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "config/launch_environment.hpp"

namespace dtrain::config {

// What one source says of this process.
struct Claim {
  std::string variables;  // what it says, as the user would recognise it
  LaunchEnvironment place;
};

// Where sources look, and where they say what they saw and did not use.
struct Traces {
  const EnvironmentLookup& lookup;
  const ClusterFlags& flags;
  std::vector<std::string>& notes;
};

// Nothing where the source is not there. Usage error where it is malformed.
using ReadClaim = std::optional<Claim> (*)(const Traces&);
std::optional<Claim> read_flags(const Traces& traces);
std::optional<Claim> read_tf_config(const Traces& traces);
std::optional<Claim> read_torchrun(const Traces& traces);
std::optional<Claim> read_open_mpi(const Traces& traces);
std::optional<Claim> read_pmi(const Traces& traces);
std::optional<Claim> read_slurm(const Traces& traces);

// All of them, as --launcher names them, in order of precedence.
const Registry<ReadClaim>& launchers();

// The variables in which a launcher counts processes. A process need not have the local ones, nor a launcher
// (null).
struct CountingVariables {
  const char* source;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};
std::optional<Claim> read_counts(const CountingVariables& names, const EnvironmentLookup& lookup);

// MASTER_ADDR and MASTER_PORT; nothing where neither is set. Usage error where only one is, or they are no
// address.
std::optional<std::string> read_master(const EnvironmentLookup& lookup);

// A whole number of 0 or more; usage error naming the variable.
int read_count(const std::string& variable, const std::string& text);

// The same port for all processes of a job, from what tells it from other jobs: 20000 to 29999.
int derived_port(const std::string& job);

}  // namespace dtrain::config
