#pragma once

#include <string>
#include <vector>

#include "backend/cuda/cudnn/graphs.hpp"
#include "model/model.hpp"

namespace dtrain::backend::cuda {

struct NamedGraph {
  std::string layer;
  GraphSpec spec;
};

// Every different graph of the model, lowered as for training: layers fused, the image padded to the channels
// that the backend pads it to, and without a gradient. Pools stand there with an index and without.
std::vector<NamedGraph> graphs_of(const model::Model& model, int batch, Element element);

}  // namespace dtrain::backend::cuda
