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

namespace {

double elements_moved(const Layer& layer) {
  if (std::holds_alternative<Relu>(layer.operation)) return 0.0;
  if (std::holds_alternative<SumGradients>(layer.operation)) return 0.0;
  double in = 0.0;
  for (const Shape& shape : layer.input_shapes) in += static_cast<double>(shape.elements());
  const auto out = static_cast<double>(layer.output.elements());
  const double forward = in + out;
  if (std::holds_alternative<Add>(layer.operation)) return forward;  // gradients pass through
  if (std::holds_alternative<MaxPool>(layer.operation)) return forward + out + in;
  if (std::holds_alternative<Slice>(layer.operation)) return 4.0 * out;
  if (std::holds_alternative<Concatenate>(layer.operation)) return forward + out + in;
  if (std::holds_alternative<GatherChannels>(layer.operation)) return forward + 2.0 * in;
  if (std::holds_alternative<BatchNorm>(layer.operation)) return forward + out + 2.0 * in;
  const double weight_gradient = in + out;
  const bool reads_image = layer.inputs.front() == image_input;
  return forward + weight_gradient + (reads_image ? 0.0 : out + in);
}

}  // namespace

double training_bytes(const Model& model, std::size_t element_bytes) {
  double elements = 0.0;
  for (const Layer& layer : model.layers) elements += elements_moved(layer);
  return elements * static_cast<double>(element_bytes);
}

double update_bytes(const Model& model, std::size_t element_bytes, int optimizer_states) {
  constexpr double master = sizeof(float);
  const double passes = 2.0 * static_cast<double>(element_bytes);  // forward and input gradients
  const double update =
      (2.0 + 2.0 + 2.0 * optimizer_states) * master;  // gradient, weight, states: in and out
  return static_cast<double>(model.parameter_count) * (passes + update);
}

}  // namespace dtrain::model
