#pragma once

#include <span>
#include <vector>

#include "backend/xla/writer.hpp"
#include "model/model.hpp"

// How parameters lie on devices: convolutions (kh, kw, in, out) and dense layers (in, out), their inputs
// flattened in the order (height, width, channels) of activations.
namespace dtrain::backend::xla {

// Dimensions on the device, by parameter.
Dims device_dims(const model::Model& model, const model::Parameter& parameter);

// Moves one parameter between canonical and device order. Spans hold `parameter.size` floats.
void to_device_order(const model::Model& model, const model::Parameter& parameter,
                     std::span<const float> canonical, std::span<float> device);
void to_canonical_order(const model::Model& model, const model::Parameter& parameter,
                        std::span<const float> device, std::span<float> canonical);

// Index of the layer's parameter with that ending ("_w"), or -1.
int parameter_of(const model::Model& model, int layer, std::string_view ending);

}  // namespace dtrain::backend::xla
