#pragma once

#include "model/model.hpp"

namespace dtrain::model {

// Floating-point operations per image, a multiply-add counted as two: convolutions and dense layers only, the
// convention of the field. Training adds the gradients of weights and of inputs, without the input gradient
// of the first layer.
double forward_flops(const Layer& layer);
double forward_flops(const Model& model);
double training_flops(const Model& model);

}  // namespace dtrain::model
