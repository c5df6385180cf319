#include "cli/layer_table.hpp"

#include <fmt/format.h>

#include "base/overloaded.hpp"
#include "base/text.hpp"

namespace dtrain::cli {

namespace {

std::string operation_text(const model::Operation& operation) {
  return std::visit(
      Overloaded{
          [](const model::Convolution& c) {
            return fmt::format("convolution {0} x {0}{1}{2}", c.kernel,
                               c.padding > 0 ? fmt::format(", padding {}", c.padding) : "",
                               c.bias ? "" : ", no bias");
          },
          [](const model::Dense& d) { return std::string(d.bias ? "dense" : "dense, no bias"); },
          [](const model::Relu&) { return std::string("relu"); },
          [](const model::MaxPool& p) { return fmt::format("max_pool {0} x {0}", p.size); },
          [](const model::BatchNorm&) { return std::string("batch_norm"); },
          [](const model::Add&) { return std::string("add"); },
          [](const model::GatherChannels&) { return std::string("gather channels"); },
          [](const model::SumGradients&) { return std::string("sum gradients"); },
          [](const model::Slice&) { return std::string("slice"); },
          [](const model::Concatenate&) { return std::string("concatenate"); },
      },
      operation);
}

std::string shape_text(const model::Shape& shape) {
  if (shape.height == 1 && shape.width == 1) return std::to_string(shape.channels);
  return fmt::format("{} x {} x {}", shape.channels, shape.height, shape.width);
}

std::string inputs_text(const model::Model& model, const model::Layer& layer) {
  std::vector<std::string> names;
  for (const int input : layer.inputs) {
    names.push_back(input == model::image_input ? "image"
                                                : model.layers[static_cast<std::size_t>(input)].name);
  }
  return join(names, " + ");
}

std::size_t parameters_of(const model::Model& model, std::size_t layer) {
  std::size_t count = 0;
  for (const auto& parameter : model.parameters) {
    if (parameter.layer == static_cast<int>(layer)) count += parameter.size;
  }
  return count;
}

}  // namespace

std::string layer_table(const model::Model& model) {
  std::string text =
      fmt::format("  {:<16}{:<32}{:<24}{:>16}{:>12}\n", "layer", "", "reads", "gives", "parameters");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& layer = model.layers[i];
    text += fmt::format("  {:<16}{:<32}{:<24}{:>16}{:>12}\n", layer.name, operation_text(layer.operation),
                        inputs_text(model, layer), shape_text(layer.output), parameters_of(model, i));
  }
  return text;
}

}  // namespace dtrain::cli
