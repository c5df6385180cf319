#include "backend/cuda/cudnn/autotune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace dtrain::backend::cuda {

namespace {

using Clock = std::chrono::steady_clock;

class Event {
 public:
  Event() { DTRAIN_CUDA(cudaEventCreate(&raw_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { DTRAIN_CUDA_QUIETLY(cudaEventDestroy(raw_)); }
  cudaEvent_t get() const { return raw_; }

 private:
  cudaEvent_t raw_ = nullptr;
};

double microseconds_once(const Plan& plan, const TuningBench& bench, const Event& begin, const Event& end) {
  float milliseconds = 0.0F;
  DTRAIN_CUDA(cudaEventRecord(begin.get(), bench.stream));
  plan.execute(bench.handle, bench.bindings, bench.workspace);
  DTRAIN_CUDA(cudaEventRecord(end.get(), bench.stream));
  DTRAIN_CUDA(cudaEventSynchronize(end.get()));
  DTRAIN_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return 1e3 * static_cast<double>(milliseconds);
}

double median_microseconds(const Plan& plan, const TuningBench& bench, const TuningLimits& limits) {
  const Event begin;
  const Event end;
  for (int i = 0; i < limits.warm_up; ++i) microseconds_once(plan, bench, begin, end);
  std::vector<double> times;
  for (int i = 0; i < limits.repetitions; ++i) times.push_back(microseconds_once(plan, bench, begin, end));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Failures become part of the trial: another candidate may work.
Trial try_candidate(const Attempt& attempt, const std::string& tag, const TuningBench& bench,
                    const TuningLimits& limits) {
  if (!attempt.plan) return {tag, 0.0, attempt.refusal};
  try {
    return {tag, median_microseconds(*attempt.plan, bench, limits), ""};
  } catch (const Error& error) {
    return {tag, 0.0, error.what()};
  }
}

}  // namespace

Tuned autotune(const Planner& planner, const OperationGraph& graph, const Policy& policy,
               const TuningBench& bench, const TuningLimits& limits) {
  Policy within = policy;
  within.workspace_limit = std::min(policy.workspace_limit, bench.workspace_bytes);
  const auto started = Clock::now();
  std::optional<Plan> fastest;
  double least = 0.0;
  std::vector<Trial> trials;
  int timed = 0;
  for (const Candidate& candidate : planner.candidates(graph, within)) {
    if (timed == limits.candidates || (fastest && Clock::now() - started > limits.budget)) break;
    Attempt attempt = planner.try_plan(candidate, within);
    const Trial& trial = trials.emplace_back(try_candidate(attempt, candidate.tag, bench, limits));
    if (!trial.failure.empty()) continue;
    ++timed;
    if (fastest && trial.microseconds >= least) continue;
    least = trial.microseconds;
    fastest = std::move(attempt.plan);
  }
  if (fastest) return {std::move(*fastest), std::move(trials)};
  throw environment_error(fmt::format("none of {} engine configurations computes '{}' in {} on {}: {}",
                                      trials.size(), graph.signature, precision_name(graph.element, policy),
                                      planner.device(), trials.front().failure),
                          "a smaller --batch-size needs less workspace; see also CUDNN_LOGLEVEL_DBG=2");
}

Plan tuned_plan(PlanCache& cache, const Planner& planner, const OperationGraph& graph, const Policy& policy,
                const TuningBench& bench, const TuningLimits& limits) {
  if (const auto tag = cache.find(policy, graph)) {
    if (auto plan = planner.plan_with_tag(graph, policy, *tag)) {
      if (plan->workspace_bytes() <= bench.workspace_bytes) return std::move(*plan);
    }
  }
  // Which of two is faster changes from run to run, and the bits with it: the first that works does not.
  TuningLimits allowed = limits;
  if (policy.deterministic) allowed.candidates = 1;
  Tuned tuned = autotune(planner, graph, policy, bench, allowed);
  cache.remember(policy, graph, tuned.plan.tag());
  return std::move(tuned.plan);
}

}  // namespace dtrain::backend::cuda
