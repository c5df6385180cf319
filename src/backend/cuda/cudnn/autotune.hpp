#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/cudnn/plan_cache.hpp"
#include "backend/cuda/cudnn/planner.hpp"

namespace dtrain::backend::cuda {

// Where candidates are tried: memory for every tensor of the graph (its contents are lost), and workspace.
struct TuningBench {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;  // the handle's
  std::span<const Binding> bindings;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

struct TuningLimits {
  int candidates = 12;
  int warm_up = 2;                         // executions
  int repetitions = 5;                     // of which the median counts
  std::chrono::milliseconds budget{2000};  // after it no further candidate is begun, once one has worked
};

struct Trial {
  std::string tag;
  double microseconds = 0.0;  // of an execution; 0 where it failed
  std::string failure;        // why the candidate was dropped
};

struct Tuned {
  Plan plan;  // the fastest
  std::vector<Trial> trials;
};

// Times candidates in heuristics' order. An environment error where none works.
Tuned autotune(const Planner& planner, const OperationGraph& graph, const Policy& policy,
               const TuningBench& bench, const TuningLimits& limits = {});

// The plan that was fastest in an earlier run, if the cache knows it and it is still offered; else the
// fastest now, which the cache then remembers.
Plan tuned_plan(PlanCache& cache, const Planner& planner, const OperationGraph& graph, const Policy& policy,
                const TuningBench& bench, const TuningLimits& limits = {});

}  // namespace dtrain::backend::cuda
