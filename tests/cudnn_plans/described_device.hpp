#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "backend/cuda/cudnn/planner.hpp"
#include "config/options.hpp"

namespace dtrain::backend::cuda {

// "h200": devices/h200.json, in cuDNN's form. The values are those of public specifications.
inline Planner planner_for(const std::string& device) {
  const std::string path = std::string(DTRAIN_DEVICES) + "/" + device + ".json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return Planner::for_described_device({std::istreambuf_iterator<char>(file), {}});
}

inline Element element_of(config::Precision precision) {
  switch (precision) {
    case config::Precision::bf16:
      return Element::bf16;
    case config::Precision::fp16:
      return Element::f16;
    default:
      return Element::f32;
  }
}

inline Policy policy_of(config::Precision precision) {
  Policy policy;
  policy.true_fp32 = precision == config::Precision::fp32;
  policy.workspace_limit = std::size_t{256} << 20;  // a replica's, at most
  return policy;
}

// The first candidate that becomes a plan, or why none does.
inline Attempt first_plan(const Planner& planner, const std::vector<Candidate>& candidates,
                          const Policy& policy) {
  std::string refusals;
  for (const Candidate& candidate : candidates) {
    Attempt attempt = planner.try_plan(candidate, policy);
    if (attempt.plan) return attempt;
    refusals += "\n  " + attempt.refusal;
  }
  return {std::nullopt, refusals};
}

inline Attempt first_plan(const Planner& planner, const OperationGraph& graph, const Policy& policy) {
  return first_plan(planner, planner.candidates(graph, policy), policy);
}

}  // namespace dtrain::backend::cuda
