#include "model/flops.hpp"

namespace dtrain::model {

double forward_flops(const Layer& layer) {
  const Shape& in = layer.input_shapes.front();
  if (const auto* c = std::get_if<Convolution>(&layer.operation)) {
    return 2.0 * static_cast<double>(layer.output.elements()) * in.channels * c->kernel * c->kernel;
  }
  if (std::holds_alternative<Dense>(layer.operation)) {
    return 2.0 * static_cast<double>(layer.output.elements()) * static_cast<double>(in.elements());
  }
  return 0.0;
}

double forward_flops(const Model& model) {
  double total = 0.0;
  for (const Layer& layer : model.layers) total += forward_flops(layer);
  return total;
}

double training_flops(const Model& model) {
  double total = 0.0;
  for (const Layer& layer : model.layers) {
    const bool reads_image = layer.inputs.front() == image_input;
    total += forward_flops(layer) * (reads_image ? 2.0 : 3.0);
  }
  return total;
}

}  // namespace dtrain::model
