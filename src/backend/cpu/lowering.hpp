#pragma once

#include <vector>

#include "model/model.hpp"

namespace dtrain::backend::cpu {

// A model layer together with what is fused into it.
struct FusedLayer {
  int layer = 0;                     // index into Model::layers: the layer that names it
  int output_layer = 0;              // the layer whose output it gives: `layer`, or the ReLU behind it
  bool relu = false;                 // its output passes through a ReLU
  bool relu_masked_by_pool = false;  // the ReLU's backward mask is applied by the max pool behind it
  bool winners_need_positive =
      false;                // max pool behind a fused ReLU: a window without a positive has no winner
  std::vector<int> inputs;  // indices of fused layers, or model::image_input
  int consumers = 0;
};

// Fuses ReLUs into the convolution, dense or batch norm before them where nothing else reads that layer, and
// the masks of convolutions' ReLUs into the max pool that follows.
std::vector<FusedLayer> lower(const model::Model& model);

}  // namespace dtrain::backend::cpu
