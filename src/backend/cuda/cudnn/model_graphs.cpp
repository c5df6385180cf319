#include "backend/cuda/cudnn/model_graphs.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace dtrain::backend::cuda {

namespace {

bool feeds_only_a_relu(const model::Model& model, int layer) {
  int readers = 0;
  for (const model::Layer& other : model.layers) {
    readers += static_cast<int>(std::count(other.inputs.begin(), other.inputs.end(), layer));
  }
  const auto next = static_cast<std::size_t>(layer) + 1;
  return readers == 1 && next < model.layers.size() &&
         std::holds_alternative<model::Relu>(model.layers[next].operation) &&
         model.layers[next].inputs == std::vector<int>{layer};
}

// Collects the graphs of one layer, by its operation.
struct LayerGraphs {
  const model::Layer& layer;
  bool relu;
  int batch;
  Element element;
  std::vector<GraphSpec> graphs = {};

  bool reads_image() const { return layer.inputs == std::vector<int>{model::image_input}; }
  ActivationShape in() const { return activation_shape(layer.input_shapes.at(0), batch); }
  ActivationShape out() const { return activation_shape(layer.output, batch); }

  void operator()(const model::Convolution& convolution) {
    const ConvolutionShape shape = convolution_shape(layer, batch);
    graphs.push_back(ConvolutionForward{shape, element, convolution.bias, relu});
    graphs.push_back(ConvolutionWeightGradient{shape, element});
    if (!reads_image()) graphs.push_back(ConvolutionDataGradient{shape, element});
    if (convolution.bias) graphs.push_back(BiasGradient{out(), element});
  }
  void operator()(const model::Dense& dense) {
    const DenseShape shape = dense_shape(layer, batch);
    graphs.push_back(DenseForward{shape, element, dense.bias, relu});
    graphs.push_back(DenseWeightGradient{shape, element});
    if (!reads_image()) graphs.push_back(DenseDataGradient{shape, element});
    if (dense.bias) graphs.push_back(BiasGradient{out(), element});
  }
  void operator()(const model::BatchNorm& norm) {
    BatchNormForward forward{.shape = out(), .element = element, .relu = relu};
    forward.epsilon = norm.epsilon;
    forward.momentum = norm.momentum;
    graphs.push_back(forward);
    forward.running_statistics = true;
    graphs.push_back(forward);
    graphs.push_back(BatchNormBackward{out(), element});
  }
  void operator()(const model::MaxPool& pool) {
    graphs.push_back(MaxPoolForward{in(), pool.size, element, false});
    graphs.push_back(MaxPoolForward{in(), pool.size, element, true});
    graphs.push_back(MaxPoolBackward{in(), pool.size, element});
  }
  void operator()(const model::Relu&) {}  // fused, or a kernel of our own
  void operator()(const model::Add&) {}   // a kernel of our own
};

}  // namespace

ConvolutionShape convolution_shape(const model::Layer& layer, int batch) {
  const auto& convolution = std::get<model::Convolution>(layer.operation);
  const model::Shape& in = layer.input_shapes.at(0);
  return {.batch = batch,
          .in_channels = in.channels,
          .in_height = in.height,
          .in_width = in.width,
          .out_channels = convolution.out_channels,
          .kernel = convolution.kernel,
          .padding = convolution.padding};
}

DenseShape dense_shape(const model::Layer& layer, int batch) {
  return {.batch = batch,
          .inputs = static_cast<int>(layer.input_shapes.at(0).elements()),
          .outputs = layer.output.channels};
}

ActivationShape activation_shape(const model::Shape& shape, int batch) {
  return {.batch = batch, .channels = shape.channels, .height = shape.height, .width = shape.width};
}

std::vector<NamedGraph> graphs_of(const model::Model& model, int batch, Element element) {
  std::vector<NamedGraph> different;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const model::Layer& layer = model.layers[i];
    LayerGraphs collected{layer, feeds_only_a_relu(model, static_cast<int>(i)), batch, element};
    std::visit(collected, layer.operation);
    for (GraphSpec& spec : collected.graphs) {
      if (seen.insert(signature(spec)).second) different.push_back({layer.name, std::move(spec)});
    }
  }
  return different;
}

}  // namespace dtrain::backend::cuda
