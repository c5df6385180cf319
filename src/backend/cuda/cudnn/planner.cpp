#include "backend/cuda/cudnn/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dtrain::backend::cuda {

namespace {

std::string tag_of(const Descriptor& engine, const Descriptor& configuration) {
  std::string tag = fmt::format("engine {}", engine.get_one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  const auto choices = configuration.get_descriptors(
      CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS);
  for (const Descriptor& choice : choices) {
    const auto knob = choice.get_one<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
    const auto value = choice.get_one<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
    tag += fmt::format(" k{}={}", static_cast<int>(knob), value);
  }
  return tag;
}

Candidate describe(const OperationGraph& graph, Descriptor configuration) {
  auto engines = configuration.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const Descriptor& engine = engines.at(0);
  return {.tag = tag_of(engine, configuration),
          .numerical_notes = engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE),
          .behaviour_notes = engine.get<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE),
          .graph = graph,
          .configuration = std::make_shared<const Descriptor>(std::move(configuration))};
}

bool allowed(const Candidate& candidate, const Policy& policy) {
  // Sums are fp32 in every precision.
  if (candidate.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
  if (policy.deterministic && candidate.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  const bool full = policy.true_fp32 && candidate.graph.element == Element::f32 && candidate.graph.products;
  return !full || (!candidate.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) &&
                   !candidate.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
}

std::vector<Candidate> keep_allowed(std::vector<Candidate> candidates, const Policy& policy) {
  std::erase_if(candidates, [&](const Candidate& candidate) { return !allowed(candidate, policy); });
  return candidates;
}

// What the user could choose instead.
std::string nearest_choice(const std::vector<Candidate>& offered, Element element, Policy policy) {
  if (policy.deterministic) {
    policy.deterministic = false;
    if (!keep_allowed(offered, policy).empty()) return "leave out --deterministic";
  }
  if (policy.true_fp32 && element == Element::f32) {
    policy.true_fp32 = false;
    if (!keep_allowed(offered, policy).empty()) return "--precision tf32 is there on this GPU";
  }
  if (element != Element::f32) return "--precision fp32 and tf32 need the least of a GPU";
  return "use --device cpu, or a GPU of compute capability 8.0 or more";
}

}  // namespace

std::string precision_name(Element element, const Policy& policy) {
  switch (element) {
    case Element::f32:
      return policy.true_fp32 ? "fp32" : "tf32";
    case Element::bf16:
      return "bf16";
    case Element::f16:
      return "fp16";
  }
  throw std::logic_error("no such element");
}

bool Candidate::has(cudnnBackendNumericalNote_t note) const {
  return std::find(numerical_notes.begin(), numerical_notes.end(), note) != numerical_notes.end();
}

Planner::Planner(cudnnHandle_t handle) : handle_(handle) {
  int device = 0;
  cudaDeviceProp properties{};
  DTRAIN_CUDA(cudaGetDevice(&device));
  DTRAIN_CUDA(cudaGetDeviceProperties(&properties, device));
  device_ = fmt::format("{} (compute capability {}.{})", properties.name, properties.major, properties.minor);
}

Planner Planner::for_described_device(const std::string& json) {
  const auto properties = nlohmann::json::parse(json, nullptr, false);
  if (!properties.is_object() || !properties.contains("deviceName") || !properties.contains("deviceVer")) {
    throw data_error("a device's properties are no JSON object with deviceName and deviceVer",
                     "cuDNN writes them: CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION");
  }
  Descriptor descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(json)).finalize();

  const int version = properties["deviceVer"].get<int>();
  Planner planner;
  planner.properties_ = std::make_shared<const Descriptor>(std::move(descriptor));
  planner.device_ = fmt::format("{} (compute capability {}.{})", properties["deviceName"].get<std::string>(),
                                version / 100, version % 100 / 10);
  return planner;
}

std::vector<Candidate> Planner::offered(const OperationGraph& graph, cudnnBackendHeurMode_t mode) const {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph.descriptor)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (properties_) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties_);
  if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS)
    return {};  // this mode knows nothing of such a graph

  std::vector<Candidate> found;
  for (Descriptor& configuration :
       heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
    found.push_back(describe(graph, std::move(configuration)));
  }
  return found;
}

std::vector<Candidate> Planner::offered(const OperationGraph& graph) const {
  std::vector<Candidate> found = offered(graph, CUDNN_HEUR_MODE_A);
  for (Candidate& fallback : offered(graph, CUDNN_HEUR_MODE_FALLBACK)) {
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const Candidate& other) { return other.tag == fallback.tag; });
    if (!known) found.push_back(std::move(fallback));
  }
  return found;
}

std::vector<Candidate> Planner::candidates(const OperationGraph& graph, const Policy& policy) const {
  const std::vector<Candidate> all = offered(graph);
  std::vector<Candidate> fitting = keep_allowed(all, policy);
  if (!fitting.empty()) return fitting;
  throw environment_error(
      fmt::format("cuDNN has no way to compute '{}' in {} on {} ({} engine configurations, none allowed)",
                  graph.signature, precision_name(graph.element, policy), device_, all.size()),
      nearest_choice(all, graph.element, policy));
}

Attempt Planner::try_plan(const Candidate& candidate, const Policy& policy) const {
  Descriptor descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *candidate.configuration);
  if (properties_) {
    descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties_);
  } else {
    descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_);
  }
  const cudnnStatus_t status = descriptor.try_finalize();
  if (status != CUDNN_STATUS_SUCCESS) {
    return {std::nullopt,
            fmt::format("{}: {} ({})", candidate.tag, cudnnGetErrorString(status), last_cudnn_message())};
  }
  Plan plan(candidate, std::move(descriptor));
  if (plan.workspace_bytes() > policy.workspace_limit) {
    return {std::nullopt, fmt::format("{}: wants {} of workspace, more than {}", candidate.tag,
                                      format_bytes(static_cast<double>(plan.workspace_bytes())),
                                      format_bytes(static_cast<double>(policy.workspace_limit)))};
  }
  return {std::move(plan), ""};
}

std::optional<Plan> Planner::plan_with_tag(const OperationGraph& graph, const Policy& policy,
                                           const std::string& tag) const {
  for (const Candidate& candidate : candidates(graph, policy)) {
    if (candidate.tag == tag) return try_plan(candidate, policy).plan;
  }
  return std::nullopt;
}

}  // namespace dtrain::backend::cuda
