#pragma once

#include <functional>

#include "tensor.hpp"

namespace cuda_double {

// One operation: checked when it is made, run with every execution.
struct Step {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::function<void(Frame&)> run;
};

// An operation graph, in an order in which it can be computed. Lives until reset: queued work points to it.
struct Program : Object {
  Program() : Object("program") { owned_by_program = false; }

  std::vector<Step> steps;
  std::map<std::int64_t, TensorSpec> tensors;
  std::vector<std::int64_t> outputs;  // that are not virtual
};

const Program* compile(const Content& graph);

Step step_of(const Content& operation);  // throws a refusal where it is not one that can be computed

Step convolution_forward(const Content& operation);
Step convolution_data_gradient(const Content& operation);
Step convolution_weight_gradient(const Content& operation);
Step pointwise(const Content& operation);
Step matmul(const Content& operation);
Step reduction(const Content& operation);
Step resample_forward(const Content& operation);
Step resample_backward(const Content& operation);
Step norm_forward(const Content& operation);
Step norm_backward(const Content& operation);

void require_shape(bool fits, const Content& operation, const std::string& what);
void require_float_arithmetic(const Content& parameter, cudnnBackendAttributeName_t compute_type);

}  // namespace cuda_double
