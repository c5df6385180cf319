#pragma once

#include "model/model.hpp"

namespace dtrain::model {

// Floating-point operations per image, a multiply-add counted as two: convolutions and dense layers only, the
// convention of the field. Training adds the gradients of weights and of inputs, without the input gradient
// of the first layer.
double forward_flops(const Layer& layer);
double forward_flops(const Model& model);
double training_flops(const Model& model);

// Bytes that training moves to and from memory, at least, when every layer reads and writes its activations
// once and a ReLU is part of the layer before it; docs/metrics.md has the formula. Activations are elements
// of `element_bytes`; an image moves them, a step of a replica moves the parameters, whatever its images.
double training_bytes(const Model& model, std::size_t element_bytes);
double update_bytes(const Model& model, std::size_t element_bytes, int optimizer_states);

}  // namespace dtrain::model
