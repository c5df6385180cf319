#include "model_graphs.hpp"

#include <set>
#include <utility>

#include "backend/cuda/replica_memory.hpp"
#include "backend/lowering.hpp"

namespace dtrain::backend::cuda {

namespace {

// Collects the graphs of one fused layer, by its operation.
struct LayerGraphs {
  const model::Layer& layer;
  bool relu;
  int batch;
  Element element;
  std::vector<GraphSpec> graphs = {};

  bool reads_image() const { return layer.inputs.front() == model::image_input; }
  ActivationShape in() const {
    const model::Shape& shape = layer.input_shapes.front();
    return {batch, reads_image() ? image_channels(element) : shape.channels, shape.height, shape.width};
  }

  void operator()(const model::Convolution& convolution) {
    const ConvolutionShape shape{.batch = batch,
                                 .in_channels = in().channels,
                                 .in_height = in().height,
                                 .in_width = in().width,
                                 .out_channels = convolution.out_channels,
                                 .kernel = convolution.kernel,
                                 .padding = convolution.padding};
    graphs.push_back(ConvolutionForward{shape, element, convolution.bias, relu});
    graphs.push_back(ConvolutionWeightGradient{shape, element});
    if (!reads_image()) graphs.push_back(ConvolutionDataGradient{shape, element});
  }
  void operator()(const model::Dense& dense) {
    const DenseShape shape{
        .batch = batch, .inputs = in().channels * in().height * in().width, .outputs = dense.out_features};
    graphs.push_back(DenseForward{shape, element, dense.bias, relu});
    graphs.push_back(DenseWeightGradient{shape, element});
    if (!reads_image()) graphs.push_back(DenseDataGradient{shape, element});
  }
  void operator()(const model::BatchNorm& norm) {
    graphs.push_back(BatchNormForward{in(), element, relu, norm.epsilon});
    graphs.push_back(BatchNormBackward{in(), element});
  }
  void operator()(const model::MaxPool& pool) {
    graphs.push_back(MaxPoolForward{in(), pool.size, element, false});
    graphs.push_back(MaxPoolForward{in(), pool.size, element, true});
    graphs.push_back(MaxPoolBackward{in(), pool.size, element});
  }
  void operator()(const model::Relu&) {}  // a kernel of our own
  void operator()(const model::Add&) {}   // likewise
  void operator()(const auto&) {}         // collective layers are none of the zoo's
};

}  // namespace

std::vector<NamedGraph> graphs_of(const model::Model& model, int batch, Element element) {
  std::vector<NamedGraph> different;
  std::set<std::string> seen;
  for (const FusedLayer& fused : lower(model, PoolFusion::none)) {
    const model::Layer& layer = model.layers[static_cast<std::size_t>(fused.layer)];
    LayerGraphs collected{layer, fused.relu, batch, element};
    std::visit(collected, layer.operation);
    for (GraphSpec& spec : collected.graphs) {
      if (seen.insert(signature(spec)).second) different.push_back({layer.name, std::move(spec)});
    }
  }
  return different;
}

}  // namespace dtrain::backend::cuda
