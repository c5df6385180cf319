#include "backend/cuda/plans.hpp"

namespace dtrain::backend::cuda {

Plans::Plans(cudaStream_t stream, const Policy& policy, std::span<std::byte> workspace,
             const std::filesystem::path& cache_directory)
    : stream_(stream),
      handle_(stream),
      planner_(handle_.get()),
      policy_(policy),
      workspace_(workspace),
      cache_(cache_directory.empty() ? PlanCache::default_directory() : cache_directory, planner_.device(),
             cudnnGetVersion()) {
  policy_.workspace_limit = workspace.size();
}

Plans::PlanPtr Plans::get(const GraphSpec& spec, std::span<const Binding> bindings) {
  PlanPtr& plan = plans_[signature(spec)];
  if (!plan) {
    const TuningBench bench{.handle = handle_.get(),
                            .stream = stream_,
                            .bindings = bindings,
                            .workspace = workspace_.data(),
                            .workspace_bytes = workspace_.size()};
    plan = std::make_shared<const Plan>(tuned_plan(cache_, planner_, planner_.graph(spec), policy_, bench));
  }
  return plan;
}

}  // namespace dtrain::backend::cuda
