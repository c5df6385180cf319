#pragma once

#include <string>
#include <vector>

#include "backend/cuda/cudnn/graphs.hpp"
#include "model/model.hpp"

namespace dtrain::backend::cuda {

// A layer's shapes for a batch, as graphs want them.
ConvolutionShape convolution_shape(const model::Layer& layer, int batch);
DenseShape dense_shape(const model::Layer& layer, int batch);
ActivationShape activation_shape(const model::Shape& shape, int batch);

struct NamedGraph {
  std::string layer;
  GraphSpec spec;
};

// Every different graph that training and evaluating the model takes. A ReLU that alone reads what is
// directly before it is part of the convolution, dense layer or batch norm there; the image gets no gradient.
std::vector<NamedGraph> graphs_of(const model::Model& model, int batch, Element element);

}  // namespace dtrain::backend::cuda
