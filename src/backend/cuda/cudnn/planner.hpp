#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/cudnn/graphs.hpp"

namespace dtrain::backend::cuda {

struct Policy {
  bool true_fp32 = false;      // f32 graphs: no tensor cores, no rounding of inputs to fewer bits
  bool deterministic = false;  // the same bits in every run
  std::size_t workspace_limit = std::size_t{1} << 30;  // bytes
};

std::string precision_name(Element element, const Policy& policy);  // "fp32", "tf32", "bf16", "fp16"

// One way to compute a graph: an engine and its knobs, in heuristics' order of merit.
struct Candidate {
  std::string tag;  // "engine 48 k2=2 k6=0": the same in every run with one device and one version of cuDNN
  std::vector<cudnnBackendNumericalNote_t> numerical_notes;
  std::vector<cudnnBackendBehaviorNote_t> behaviour_notes;
  OperationGraph graph;
  std::shared_ptr<const Descriptor> configuration;

  bool has(cudnnBackendNumericalNote_t note) const;
};

struct Binding {
  Role role = Role::x;
  void* data = nullptr;  // device memory, aligned to 16 bytes
};

// An executable graph.
class Plan {
 public:
  Plan(const Candidate& candidate, Descriptor finalised);

  const std::string& tag() const { return tag_; }
  const OperationGraph& graph() const { return graph_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }

  // Enqueues on the handle's stream. Every tensor of the graph is to be bound, once; scalars bind themselves.
  // `workspace` has workspace_bytes() or more and serves one execution at a time.
  void execute(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace) const;

 private:
  std::string tag_;
  OperationGraph graph_;
  std::shared_ptr<const Descriptor> configuration_;
  Descriptor plan_;
  std::size_t workspace_bytes_ = 0;
};

// A plan, or why there is none.
struct Attempt {
  std::optional<Plan> plan;
  std::string refusal;
};

// Plans graphs for one device.
class Planner {
 public:
  explicit Planner(cudnnHandle_t handle);  // for the current device; the handle outlives the planner
  // For a device that need not be here, described in JSON (cuDNN's device properties). Its plans are not
  // executed.
  static Planner for_described_device(const std::string& json);

  const std::string& device() const { return device_; }  // "NVIDIA H200 (compute capability 9.0)"

  OperationGraph graph(const GraphSpec& spec) const { return build_graph(spec, handle_); }

  // What the policy allows. None is an environment error that names graph, precision, device and what would
  // work.
  std::vector<Candidate> candidates(const OperationGraph& graph, const Policy& policy) const;

  // Refused where the engine does not take it after all, or wants more workspace than the policy allows.
  Attempt try_plan(const Candidate& candidate, const Policy& policy) const;

  // What `candidates` offers under this tag; nothing where it is offered no more or has become impossible.
  std::optional<Plan> plan_with_tag(const OperationGraph& graph, const Policy& policy,
                                    const std::string& tag) const;

 private:
  Planner() = default;
  std::vector<Candidate> offered(const OperationGraph& graph) const;
  std::vector<Candidate> offered(const OperationGraph& graph, cudnnBackendHeurMode_t mode) const;

  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<const Descriptor> properties_;  // of a described device; null with a handle
  std::string device_;
};

}  // namespace dtrain::backend::cuda
