#include "model/model.hpp"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "base/overloaded.hpp"
#include "base/random.hpp"

namespace dtrain::model {

namespace {

[[noreturn]] void misfit(const Layer& layer, const std::string& why) {
  throw std::logic_error(fmt::format("layer {}: {}", layer.name, why));
}

Shape concatenated(const std::vector<Shape>& inputs) {
  Shape channels{0, inputs.front().height, inputs.front().width};
  std::size_t elements = 0;
  bool same = true;
  for (const Shape& each : inputs) {
    channels.channels += each.channels;
    elements += each.elements();
    same = same && each.height == channels.height && each.width == channels.width;
  }
  return same ? channels : Shape{static_cast<int>(elements), 1, 1};
}

Shape infer(const Layer& layer) {
  const Shape& in = layer.input_shapes.front();
  return std::visit(
      Overloaded{
          [&](const Convolution& c) -> Shape {
            const int shrink = c.kernel - 1 - 2 * c.padding;
            if (in.height - shrink < 1 || in.width - shrink < 1)
              misfit(layer, "kernel larger than its input");
            return {c.out_channels, in.height - shrink, in.width - shrink};
          },
          [&](const Dense& d) -> Shape {
            return {d.out_features, 1, 1};
          },
          [&](const Relu&) { return in; },
          [&](const MaxPool& p) -> Shape {
            if (in.height < p.size || in.width < p.size) misfit(layer, "window larger than its input");
            return {in.channels, in.height / p.size, in.width / p.size};
          },
          [&](const BatchNorm&) { return in; },
          [&](const Add&) {
            if (layer.input_shapes.size() != 2) misfit(layer, "needs two inputs");
            if (layer.input_shapes[0] != layer.input_shapes[1]) misfit(layer, "inputs differ in shape");
            return in;
          },
          [&](const GatherChannels& g) -> Shape {
            return {std::accumulate(g.channels.begin(), g.channels.end(), 0), in.height, in.width};
          },
          [&](const SumGradients&) { return in; },
          [&](const Slice& s) {
            if (s.offset + s.shape.elements() > in.elements()) misfit(layer, "ends behind its input");
            return s.shape;
          },
          [&](const Concatenate&) { return concatenated(layer.input_shapes); },
      },
      layer.operation);
}

class Layout {
 public:
  explicit Layout(Model& model) : model_(model) {}

  void add_parameter(const Layer& layer, const char* suffix, std::vector<int> dims) {
    std::size_t size = 1;
    for (const int d : dims) size *= static_cast<std::size_t>(d);
    model_.parameters.push_back(
        {layer.name + suffix, layer_index_, std::move(dims), model_.parameter_count, size});
    model_.parameter_count += size;
  }
  void add_statistic(const Layer& layer, const char* suffix, int size) {
    const auto count = static_cast<std::size_t>(size);
    model_.statistics.push_back({layer.name + suffix, layer_index_, model_.statistic_count, count});
    model_.statistic_count += count;
  }
  void add_layer(const Layer& layer) {
    const Shape& in = layer.input_shapes.front();
    std::visit(
        Overloaded{[&](const Convolution& c) {
                     add_parameter(layer, "_w", {c.out_channels, in.channels, c.kernel, c.kernel});
                     if (c.bias) add_parameter(layer, "_b", {c.out_channels});
                   },
                   [&](const Dense& d) {
                     add_parameter(layer, "_w", {d.out_features, static_cast<int>(in.elements())});
                     if (d.bias) add_parameter(layer, "_b", {d.out_features});
                   },
                   [&](const BatchNorm&) {
                     add_parameter(layer, "_gamma", {in.channels});
                     add_parameter(layer, "_beta", {in.channels});
                     add_statistic(layer, "_running_mean", in.channels);
                     add_statistic(layer, "_running_variance", in.channels);
                   },
                   [](const Relu&) {}, [](const MaxPool&) {}, [](const Add&) {}, [](const GatherChannels&) {},
                   [](const SumGradients&) {}, [](const Slice&) {}, [](const Concatenate&) {}},
        layer.operation);
    ++layer_index_;
  }

 private:
  Model& model_;
  int layer_index_ = 0;
};

bool is_weight(const Parameter& parameter) { return parameter.dims.size() > 1; }
bool is_gamma(const Parameter& parameter) { return parameter.name.ends_with("_gamma"); }

}  // namespace

Shape infer_output(const Layer& layer) { return infer(layer); }

Model build(std::string name, Shape image, int classes, std::vector<Layer> layers) {
  Model model;
  model.name = std::move(name);
  model.image = image;
  model.classes = classes;
  model.layers = std::move(layers);
  Layout layout(model);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    Layer& layer = model.layers[i];
    if (layer.inputs.empty()) misfit(layer, "has no input");
    for (const int input : layer.inputs) {
      if (input >= static_cast<int>(i) || input < image_input)
        misfit(layer, "reads a layer that comes later");
      layer.input_shapes.push_back(
          input == image_input ? image : model.layers[static_cast<std::size_t>(input)].output);
    }
    layer.output = infer(layer);
    layout.add_layer(layer);
  }
  if (model.layers.empty() || model.layers.back().output.elements() != static_cast<std::size_t>(classes)) {
    throw std::logic_error(fmt::format("model {}: the last layer must give {} logits", model.name, classes));
  }
  return model;
}

std::vector<float> initial_weights(const Model& model, std::uint64_t seed) {
  std::vector<float> weights(model.parameter_count, 0.0F);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const Parameter& parameter = model.parameters[p];
    float* values = weights.data() + parameter.offset;
    if (is_gamma(parameter)) std::fill_n(values, parameter.size, 1.0F);
    if (!is_weight(parameter)) continue;

    Random random(mix(seed, p));
    const auto fan_in = static_cast<double>(parameter.size) / parameter.dims[0];
    const bool last_layer = parameter.layer == static_cast<int>(model.layers.size()) - 1;
    if (last_layer) {
      const double bound = std::sqrt(6.0 / (fan_in + parameter.dims[0]));
      for (std::size_t i = 0; i < parameter.size; ++i) {
        values[i] = static_cast<float>(bound * (2.0 * random.uniform() - 1.0));
      }
    } else {
      const double deviation = std::sqrt(2.0 / fan_in);
      for (std::size_t i = 0; i < parameter.size; ++i)
        values[i] = static_cast<float>(deviation * random.normal());
    }
  }
  return weights;
}

std::vector<float> initial_statistics(const Model& model) {
  std::vector<float> values(model.statistic_count, 0.0F);
  for (const Statistic& statistic : model.statistics) {
    if (statistic.name.ends_with("_variance"))
      std::fill_n(values.data() + statistic.offset, statistic.size, 1.0F);
  }
  return values;
}

}  // namespace dtrain::model
