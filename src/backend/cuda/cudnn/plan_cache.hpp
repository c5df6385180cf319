#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "backend/cuda/cudnn/planner.hpp"

namespace dtrain::backend::cuda {

// Which engine configuration was fastest, remembered between runs: one JSON file a device and version of
// cuDNN. A cache never fails a run: what it cannot read it forgets, what it cannot write it leaves (and says
// so once).
class PlanCache {
 public:
  // $XDG_CACHE_HOME/dtrain/plans, or ~/.cache/dtrain/plans; empty where there is neither: nothing is kept.
  static std::filesystem::path default_directory();

  // `device` as the planner names it; `cudnn_version` as cudnnGetVersion does.
  PlanCache(std::filesystem::path directory, std::string device, std::size_t cudnn_version);

  std::optional<std::string> find(const Policy& policy, const OperationGraph& graph) const;
  void remember(const Policy& policy, const OperationGraph& graph, const std::string& tag);

  // Adds what was remembered to the file; what other processes wrote there meanwhile stays.
  void save();

  const std::filesystem::path& file() const { return file_; }

 private:
  using Tags = std::map<std::string, std::string>;  // by policy and signature
  Tags read() const;

  std::filesystem::path file_;
  std::string device_;
  std::size_t cudnn_version_ = 0;
  Tags tags_;
  Tags fresh_;  // not in the file yet
};

}  // namespace dtrain::backend::cuda
