#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "backend/cuda/cudnn/planner.hpp"

namespace dtrain::backend::cuda {

namespace {

void require_bound(const OperationGraph& graph, std::span<const Binding> bindings) {
  if (bindings.size() != graph.tensors.size()) {
    throw std::logic_error(fmt::format("'{}' has {} tensors, {} were bound", graph.signature,
                                       graph.tensors.size(), bindings.size()));
  }
  for (const Binding& binding : bindings) {
    if (reinterpret_cast<std::uintptr_t>(binding.data) % alignment_bytes != 0) {
      throw std::logic_error(fmt::format("'{}': {} is not aligned", graph.signature, name(binding.role)));
    }
  }
  for (const TensorUse& tensor : graph.tensors) {
    const auto bound = std::count_if(bindings.begin(), bindings.end(), [&](const Binding& binding) {
      return binding.role == tensor.role && binding.data != nullptr;
    });
    if (bound != 1) {
      throw std::logic_error(
          fmt::format("'{}': {} is bound {} times", graph.signature, name(tensor.role), bound));
    }
  }
}

}  // namespace

Plan::Plan(const Candidate& candidate, Descriptor finalised)
    : tag_(candidate.tag),
      graph_(candidate.graph),
      configuration_(candidate.configuration),
      plan_(std::move(finalised)),
      workspace_bytes_(
          static_cast<std::size_t>(plan_.get_one<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {}

void Plan::execute(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace) const {
  require_bound(graph_, bindings);
  std::vector<std::int64_t> uids;
  std::vector<void*> pointers;
  for (const Binding& binding : bindings) {
    uids.push_back(static_cast<std::int64_t>(binding.role));
    pointers.push_back(binding.data);
  }
  std::vector<HostScalar> scalars = graph_.scalars;
  for (HostScalar& scalar : scalars) {
    uids.push_back(static_cast<std::int64_t>(scalar.role));
    pointers.push_back(&scalar.value);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finalize();
  DTRAIN_CUDA(cudnnBackendExecute(handle, plan_.raw(), pack.raw()));
}

}  // namespace dtrain::backend::cuda
