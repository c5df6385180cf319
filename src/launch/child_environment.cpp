#include "launch/child_environment.hpp"

#include <sys/random.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.hpp"

namespace dtrain::launch {

namespace {

constexpr std::array replaced_names{"TF_CONFIG",       "DTRAIN_JOB_TOKEN", "RANK",        "WORLD_SIZE",
                                    "LOCAL_RANK",      "LOCAL_WORLD_SIZE", "GROUP_RANK",  "GROUP_WORLD_SIZE",
                                    "ROLE_RANK",       "ROLE_WORLD_SIZE",  "MASTER_ADDR", "MASTER_PORT",
                                    "MPI_LOCALNRANKS", "MPI_LOCALRANKID"};
constexpr std::array replaced_prefixes{"OMPI_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "HYDRA_"};

bool belongs_to_a_launcher(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  return std::find(replaced_names.begin(), replaced_names.end(), name) != replaced_names.end() ||
         std::any_of(replaced_prefixes.begin(), replaced_prefixes.end(),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::string tf_config(const std::vector<config::Task>& tasks, const config::Task& mine) {
  nlohmann::json document;
  for (const auto& task : tasks) document["cluster"][task.role].push_back(task.address);
  document["task"] = {{"type", mine.role}, {"index", mine.index}};
  return document.dump();
}

std::string make_job_token() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw environment_error("the system gives no random numbers", "see that /dev/urandom works");
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::vector<std::string> child_environment(const char* const* inherited, const std::string& tf_config,
                                           const std::string& token) {
  std::vector<std::string> variables;
  for (; *inherited != nullptr; ++inherited) {
    if (!belongs_to_a_launcher(*inherited)) variables.emplace_back(*inherited);
  }
  variables.push_back("TF_CONFIG=" + tf_config);
  variables.push_back("DTRAIN_JOB_TOKEN=" + token);
  return variables;
}

}  // namespace dtrain::launch
