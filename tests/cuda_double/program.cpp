#include "program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace cuda_double {
namespace {

void add_tensors(Program& program, const std::vector<TensorSpec>& tensors) {
  for (const TensorSpec& tensor : tensors) {
    const auto [known, fresh] = program.tensors.emplace(tensor.uid, tensor);
    if (!fresh && !(known->second == tensor)) {
      throw Refusal{CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                    fmt::format("two different tensors have the unique id {}", tensor.uid)};
    }
  }
}

bool ready(const Step& step, const std::set<std::int64_t>& computed) {
  return std::all_of(step.inputs.begin(), step.inputs.end(), [&](const TensorSpec& input) {
    return !input.is_virtual || computed.contains(input.uid);
  });
}

void require_written_once(const std::vector<Step>& steps) {
  std::set<std::int64_t> written;
  for (const Step& step : steps) {
    for (const TensorSpec& output : step.outputs) {
      if (output.by_value) throw Refusal{CUDNN_STATUS_BAD_PARAM, "a tensor by value is written"};
      if (written.insert(output.uid).second) continue;
      throw Refusal{CUDNN_STATUS_BAD_PARAM,
                    fmt::format("tensor {} is written by two operations", output.uid)};
    }
  }
}

}  // namespace

void require_shape(bool fits, const Content& operation, const std::string& what) {
  if (fits) return;
  throw Refusal{CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, fmt::format("{}: {}", name_of(operation.type), what)};
}

void require_float_arithmetic(const Content& parameter, cudnnBackendAttributeName_t compute_type) {
  if (parameter.value<cudnnDataType_t>(compute_type) == CUDNN_DATA_FLOAT) return;
  throw Refusal{CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                fmt::format("{}: the double computes in fp32 only", name_of(parameter.type))};
}

Step step_of(const Content& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return convolution_forward(operation);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return convolution_data_gradient(operation);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return convolution_weight_gradient(operation);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return pointwise(operation);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return matmul(operation);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return reduction(operation);
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
      return resample_forward(operation);
    case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
      return resample_backward(operation);
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return norm_forward(operation);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return norm_backward(operation);
    default:
      throw Refusal{CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                    fmt::format("a {} is no operation", name_of(operation.type))};
  }
}

const Program* compile(const Content& graph) {
  auto* program = machine().make<Program>();
  std::vector<Step> waiting;
  for (const auto& operation : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    waiting.push_back(step_of(*operation));
    add_tensors(*program, waiting.back().inputs);
    add_tensors(*program, waiting.back().outputs);
  }
  require_written_once(waiting);
  std::set<std::int64_t> computed;
  while (!waiting.empty()) {
    const auto next =
        std::find_if(waiting.begin(), waiting.end(), [&](const Step& step) { return ready(step, computed); });
    if (next == waiting.end()) {
      throw Refusal{CUDNN_STATUS_BAD_PARAM, "a virtual tensor is read and written by no operation"};
    }
    for (const TensorSpec& output : next->outputs) {
      computed.insert(output.uid);
      if (!output.is_virtual) program->outputs.push_back(output.uid);
    }
    program->steps.push_back(std::move(*next));
    waiting.erase(next);
  }
  if (program->outputs.empty()) throw Refusal{CUDNN_STATUS_BAD_PARAM, "all results are virtual"};
  return program;
}

}  // namespace cuda_double
