#include <unistd.h>

#include "config/launch_environment.hpp"

namespace dtrain::config {

namespace {

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
