#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "backend/cuda/cudnn/autotune.hpp"
#include "backend/cuda/cudnn/handle.hpp"

namespace dtrain::backend::cuda {

// The plans of one replica: each graph is planned and tuned once, whichever layers need it.
class Plans {
 public:
  // Workspace is a replica's own: its work is in order, so that one serves all plans.
  Plans(cudaStream_t stream, const Policy& policy, std::span<std::byte> workspace,
        const std::filesystem::path& cache_directory);

  using PlanPtr = std::shared_ptr<const Plan>;
  // The contents of what is bound are lost where the plan has to be tuned.
  PlanPtr get(const GraphSpec& spec, std::span<const Binding> bindings);

  void execute(const Plan& plan, std::span<const Binding> bindings) const {
    plan.execute(handle_.get(), bindings, workspace_.data());
  }

  void save() { cache_.save(); }

 private:
  cudaStream_t stream_;
  CudnnHandle handle_;
  Planner planner_;
  Policy policy_;
  std::span<std::byte> workspace_;
  PlanCache cache_;
  std::map<std::string, PlanPtr> plans_;  // by signature
};

}  // namespace dtrain::backend::cuda
