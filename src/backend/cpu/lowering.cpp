#include "backend/cpu/lowering.hpp"

namespace dtrain::backend::cpu {

namespace {

template <class Operation>
bool is(const model::Layer& layer) {
  return std::holds_alternative<Operation>(layer.operation);
}

std::vector<int> count_consumers(const model::Model& model) {
  std::vector<int> consumers(model.layers.size(), 0);
  for (const auto& layer : model.layers) {
    for (const int input : layer.inputs) {
      if (input != model::image_input) ++consumers[static_cast<std::size_t>(input)];
    }
  }
  return consumers;
}

bool takes_relu(const model::Layer& layer) {
  return is<model::Convolution>(layer) || is<model::Dense>(layer) || is<model::BatchNorm>(layer);
}

}  // namespace

std::vector<FusedLayer> lower(const model::Model& model) {
  const std::vector<int> consumers = count_consumers(model);
  std::vector<FusedLayer> fused;
  std::vector<int> fused_index(model.layers.size(), 0);

  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const model::Layer& layer = model.layers[i];
    const int first_input = layer.inputs.front();
    if (is<model::Relu>(layer) && first_input != model::image_input) {
      const auto before = static_cast<std::size_t>(first_input);
      FusedLayer& target = fused[static_cast<std::size_t>(fused_index[before])];
      if (takes_relu(model.layers[before]) && consumers[before] == 1 && !target.relu) {
        target.relu = true;
        target.output_layer = static_cast<int>(i);
        target.consumers = consumers[i];
        fused_index[i] = fused_index[before];
        continue;
      }
    }
    FusedLayer made;
    made.layer = static_cast<int>(i);
    made.output_layer = made.layer;
    made.consumers = consumers[i];
    for (const int input : layer.inputs) {
      made.inputs.push_back(input == model::image_input ? input
                                                        : fused_index[static_cast<std::size_t>(input)]);
    }
    if (is<model::MaxPool>(layer) && made.inputs.front() != model::image_input) {
      FusedLayer& source = fused[static_cast<std::size_t>(made.inputs.front())];
      const bool masks = source.relu && source.consumers == 1 &&
                         !is<model::BatchNorm>(model.layers[static_cast<std::size_t>(source.layer)]);
      source.relu_masked_by_pool = masks;
      made.winners_need_positive = masks;
    }
    fused_index[i] = static_cast<int>(fused.size());
    fused.push_back(std::move(made));
  }
  return fused;
}

}  // namespace dtrain::backend::cpu
