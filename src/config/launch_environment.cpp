#include "config/launch_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "config/tf_config.hpp"

namespace dtrain::config {

namespace {

// What one launcher says of this process.
struct Claim {
  std::string source;
  std::string variables;  // as the user would recognise them
  int rank = 0;
  int world = 1;
};

struct Launcher {
  const char* source;
  const char* rank;
  const char* world;
};

// In order of precedence, after TF_CONFIG and before SLURM.
constexpr std::array launchers{Launcher{"torchrun", "RANK", "WORLD_SIZE"},
                               Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                               Launcher{"PMI", "PMI_RANK", "PMI_SIZE"}};
constexpr Launcher slurm{"SLURM", "SLURM_PROCID", "SLURM_NTASKS"};

int read_count(const std::string& variable, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) {
    throw usage_error(fmt::format("{}: '{}' is not a whole number of 0 or more", variable, text),
                      fmt::format("unset {}, or let the launcher set it", variable));
  }
  return value;
}

std::optional<Claim> read_launcher(const Launcher& launcher, const EnvironmentLookup& lookup) {
  const auto rank = lookup(launcher.rank);
  const auto world = lookup(launcher.world);
  if (!rank && !world) return std::nullopt;
  if (!rank || !world) {
    throw usage_error(fmt::format("{} is set but {} is not", rank ? launcher.rank : launcher.world,
                                  rank ? launcher.world : launcher.rank),
                      fmt::format("set both, as {} does, or neither", launcher.source));
  }
  Claim claim{launcher.source, fmt::format("{}={} {}={}", launcher.rank, *rank, launcher.world, *world),
              read_count(launcher.rank, *rank), read_count(launcher.world, *world)};
  if (claim.world < 1 || claim.rank >= claim.world) {
    throw usage_error(
        fmt::format("{}: there is no rank {} among {}", claim.variables, claim.rank, claim.world),
        fmt::format("{} must be below {}; let {} set both, or unset them", launcher.rank, launcher.world,
                    launcher.source));
  }
  return claim;
}

std::optional<Claim> read_tf_config(const EnvironmentLookup& lookup) {
  const auto text = lookup("TF_CONFIG");
  if (!text) return std::nullopt;
  const ClusterPlace place = parse_tf_config(*text);
  return Claim{"TF_CONFIG", fmt::format("TF_CONFIG with task {} {}", place.role, place.index), place.rank,
               place.world};
}

// Inside an allocation but outside a step (a batch script, a shell) the variables describe the allocation,
// not this process. SLURM numbers such steps from 4294967280 up.
bool inside_slurm_step(const EnvironmentLookup& lookup) {
  for (const char* variable : {"SLURM_STEP_ID", "SLURM_STEPID"}) {
    const auto text = lookup(variable);
    if (!text) continue;
    std::uint64_t id = 0;
    const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), id);
    return error == std::errc() && stop == text->data() + text->size() && id < 4'294'967'280U;
  }
  return false;
}

std::optional<Claim> read_slurm(const EnvironmentLookup& lookup, std::vector<std::string>& notes) {
  const bool present = lookup("SLURM_JOB_ID") || lookup("SLURM_NTASKS") || lookup("SLURM_PROCID");
  if (!present) return std::nullopt;
  if (!inside_slurm_step(lookup)) {
    notes.emplace_back(
        "SLURM variables without a job step (SLURM_STEP_ID) describe the allocation, not this process: "
        "running as a "
        "single process; start it with srun to use them");
    return std::nullopt;
  }
  Launcher variables = slurm;
  if (lookup("SLURM_STEP_NUM_TASKS")) variables.world = "SLURM_STEP_NUM_TASKS";
  return read_launcher(variables, lookup);
}

// SLURM often starts one task a node, and another launcher the processes on it.
bool nested_in_slurm(const Claim& inner, const Claim& outer) {
  if (outer.source != slurm.source || inner.world % outer.world != 0) return false;
  return inner.rank / (inner.world / outer.world) == outer.rank;
}

void require_agreement(const std::vector<Claim>& claims) {
  for (std::size_t i = 1; i < claims.size(); ++i) {
    const Claim& first = claims.front();
    const Claim& other = claims[i];
    if (first.rank == other.rank && first.world == other.world) continue;
    if (nested_in_slurm(first, other)) continue;
    throw usage_error(fmt::format("{} and {} disagree: rank {} of {} ({}) against rank {} of {} ({})",
                                  first.source, other.source, first.rank, first.world, first.variables,
                                  other.rank, other.world, other.variables),
                      fmt::format("start the program with one launcher, or unset the variables of {} or {}",
                                  first.source, other.source));
  }
}

constexpr std::array recorded_prefixes{"NCCL_",     "CUDA_", "CUDNN_",          "NVIDIA_", "OMP_",
                                       "GOMP_",     "KMP_",  "DNNL_",           "ONEDNN_", "DTRAIN_",
                                       "OPENBLAS_", "MKL_",  "OMPI_COMM_WORLD_"};
constexpr std::array recorded_names{
    "RANK",          "WORLD_SIZE",   "LOCAL_RANK",      "LOCAL_WORLD_SIZE", "PMI_RANK",
    "PMI_SIZE",      "SLURM_JOB_ID", "SLURM_STEP_ID",   "SLURM_PROCID",     "SLURM_NTASKS",
    "SLURM_LOCALID", "SLURM_NNODES", "MALLOC_ARENA_MAX"};
constexpr std::array secret_words{"TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH"};
constexpr std::size_t longest_recorded_value = 200;

bool may_be_recorded(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  const auto contains = [&](const char* word) { return upper.find(word) != std::string::npos; };
  if (std::any_of(secret_words.begin(), secret_words.end(), contains)) return false;
  const auto starts = [&](const char* prefix) { return name.starts_with(prefix); };
  return std::any_of(recorded_prefixes.begin(), recorded_prefixes.end(), starts) ||
         std::find(recorded_names.begin(), recorded_names.end(), name) != recorded_names.end();
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

LaunchEnvironment read_launch_environment(const EnvironmentLookup& lookup, const ClusterFlags&,
                                          bool strategy_spans_workers) {
  LaunchEnvironment found;
  std::vector<Claim> claims;
  if (auto claim = read_tf_config(lookup)) claims.push_back(*claim);
  for (const auto& launcher : launchers) {
    if (auto claim = read_launcher(launcher, lookup)) claims.push_back(*claim);
  }
  if (auto claim = read_slurm(lookup, found.notes)) claims.push_back(*claim);
  require_agreement(claims);
  if (claims.empty()) return found;

  const Claim& used = claims.front();
  if (used.world > 1 && !strategy_spans_workers) {
    throw usage_error(
        fmt::format("{} describes {} workers ({}), but the strategy runs on one machine, in one process",
                    used.source, used.world, used.variables),
        fmt::format("start one process and ask for --replicas N, or unset the variables of {}", used.source));
  }
  found.source = used.source;
  found.rank = used.rank;
  found.world = used.world;
  found.notes.push_back(fmt::format("{}: rank {} of {}", used.variables, used.rank, used.world));
  return found;
}

std::vector<std::pair<std::string, std::string>> recorded_environment(const char* const* variables) {
  std::vector<std::pair<std::string, std::string>> recorded;
  for (; *variables != nullptr; ++variables) {
    const std::string_view variable = *variables;
    const auto equals = variable.find('=');
    if (equals == std::string_view::npos || !may_be_recorded(variable.substr(0, equals))) continue;
    recorded.emplace_back(variable.substr(0, equals), variable.substr(equals + 1, longest_recorded_value));
  }
  std::sort(recorded.begin(), recorded.end());
  return recorded;
}

std::vector<std::pair<std::string, std::string>> recorded_environment() {
  return recorded_environment(environ);
}

}  // namespace dtrain::config
