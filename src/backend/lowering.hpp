#pragma once

#include <vector>

#include "model/model.hpp"

namespace dtrain::backend {

// A model layer together with what is fused into it.
struct FusedLayer {
  int layer = 0;            // index into Model::layers: the layer that names it
  bool relu = false;        // a ReLU follows
  int pool_layer = -1;      // behind a convolution's ReLU: the max pool that reads nothing else
  std::vector<int> inputs;  // indices of fused layers, or model::image_input
  int consumers = 0;        // of its output
};

enum class PoolFusion { none, into_convolutions };

// Fuses ReLUs into the convolution, dense layer or batch norm before them, and, if asked, max pools into the
// convolution and ReLU before them, where nothing else reads what lies between.
std::vector<FusedLayer> lower(const model::Model& model, PoolFusion pools = PoolFusion::into_convolutions);

// The last of the layers that read the output of one; as many as there are layers where none does: the loss.
int last_consumer(const std::vector<FusedLayer>& fused, std::size_t index);

// Whether backward, which goes from the last layer to the first, has written the gradient of this layer's
// k-th input before it comes to this layer, which then has to add its own. The image has no gradient.
bool adds_to_gradient(const std::vector<FusedLayer>& fused, std::size_t index, std::size_t k);

}  // namespace dtrain::backend
