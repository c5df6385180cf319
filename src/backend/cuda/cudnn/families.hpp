#pragma once

#include <string>

#include "backend/cuda/cudnn/graph_builder.hpp"

// One builder a graph; `build_graph` chooses.
namespace dtrain::backend::cuda {

OperationGraph build(const ConvolutionForward& spec, const std::string& signature, cudnnHandle_t handle);
OperationGraph build(const ConvolutionDataGradient& spec, const std::string& signature, cudnnHandle_t handle);
OperationGraph build(const ConvolutionWeightGradient& spec, const std::string& signature,
                     cudnnHandle_t handle);
OperationGraph build(const DenseForward& spec, const std::string& signature, cudnnHandle_t handle);
OperationGraph build(const DenseDataGradient& spec, const std::string& signature, cudnnHandle_t handle);
OperationGraph build(const DenseWeightGradient& spec, const std::string& signature, cudnnHandle_t handle);
OperationGraph build(const BatchNormForward& spec, const std::string& signature, cudnnHandle_t handle);
OperationGraph build(const BatchNormBackward& spec, const std::string& signature, cudnnHandle_t handle);
OperationGraph build(const MaxPoolForward& spec, const std::string& signature, cudnnHandle_t handle);
OperationGraph build(const MaxPoolBackward& spec, const std::string& signature, cudnnHandle_t handle);

}  // namespace dtrain::backend::cuda
