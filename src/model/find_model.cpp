#include "model/find_model.hpp"

#include <fmt/ranges.h>

#include "base/hash.hpp"
#include "base/overloaded.hpp"
#include "model/model_file.hpp"
#include "model/zoo.hpp"

namespace dtrain::model {

bool is_model_file(const std::string& name_or_path) {
  return name_or_path.ends_with(".toml") || name_or_path.find('/') != std::string::npos;
}

Model find_model(const std::string& name_or_path) {
  return is_model_file(name_or_path) ? read_model(name_or_path) : zoo().at(name_or_path).value();
}

namespace {

std::string described(const Operation& operation) {
  return std::visit(
      Overloaded{
          [](const Convolution& c) {
            return fmt::format("convolution {} {} {} {}", c.out_channels, c.kernel, c.padding, c.bias);
          },
          [](const Dense& d) { return fmt::format("dense {} {}", d.out_features, d.bias); },
          [](const Relu&) { return std::string("relu"); },
          [](const MaxPool& p) { return fmt::format("max_pool {}", p.size); },
          [](const BatchNorm& b) { return fmt::format("batch_norm {:a} {:a}", b.epsilon, b.momentum); },
          [](const Add&) { return std::string("add"); },
          [](const GatherChannels& g) { return fmt::format("gather {}", fmt::join(g.channels, " ")); },
          [](const SumGradients&) { return std::string("sum_gradients"); },
          [](const Slice& s) {
            return fmt::format("slice {} {} {} {}", s.offset, s.shape.channels, s.shape.height,
                               s.shape.width);
          },
          [](const Concatenate&) { return std::string("concatenate"); },
      },
      operation);
}

}  // namespace

std::string fingerprint(const Model& model) {
  std::string text = fmt::format("{} {} {} {}\n", model.image.channels, model.image.height, model.image.width,
                                 model.classes);
  for (const Layer& layer : model.layers) {
    text += fmt::format("{}: {}\n", described(layer.operation), fmt::join(layer.inputs, " "));
  }
  Hash hash;
  hash.add(std::span<const char>(text));
  return hash.hex();
}

}  // namespace dtrain::model
