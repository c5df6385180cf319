#include "backend/lowering.hpp"

namespace dtrain::backend {

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

// Whether `layer` becomes a part of the fused layer before it.
bool joins(const model::Model& model, const FusedLayer& before, const model::Layer& layer, PoolFusion pools) {
  if (before.consumers != 1 || before.pool_layer >= 0) return false;
  const model::Layer& first = model.layers[static_cast<std::size_t>(before.layer)];
  if (is<model::Relu>(layer)) return takes_relu(first) && !before.relu;
  return pools == PoolFusion::into_convolutions && is<model::MaxPool>(layer) &&
         is<model::Convolution>(first) && before.relu;
}

}  // namespace

std::vector<FusedLayer> lower(const model::Model& model, PoolFusion pools) {
  const std::vector<int> consumers = count_consumers(model);
  std::vector<FusedLayer> fused;
  std::vector<int> fused_index(model.layers.size(), 0);

  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const model::Layer& layer = model.layers[i];
    const int input = layer.inputs.front();
    if (input != model::image_input) {
      const int index = fused_index[static_cast<std::size_t>(input)];
      FusedLayer& before = fused[static_cast<std::size_t>(index)];
      if (joins(model, before, layer, pools)) {
        if (is<model::Relu>(layer)) {
          before.relu = true;
        } else {
          before.pool_layer = static_cast<int>(i);
        }
        before.consumers = consumers[i];
        fused_index[i] = index;
        continue;
      }
    }
    FusedLayer made;
    made.layer = static_cast<int>(i);
    made.consumers = consumers[i];
    for (const int each : layer.inputs) {
      made.inputs.push_back(each == model::image_input ? each : fused_index[static_cast<std::size_t>(each)]);
    }
    fused_index[i] = static_cast<int>(fused.size());
    fused.push_back(std::move(made));
  }
  return fused;
}

int last_consumer(const std::vector<FusedLayer>& fused, std::size_t index) {
  for (std::size_t layer = fused.size(); layer-- > index + 1;) {
    for (const int input : fused[layer].inputs) {
      if (input == static_cast<int>(index)) return static_cast<int>(layer);
    }
  }
  return static_cast<int>(fused.size());
}

bool adds_to_gradient(const std::vector<FusedLayer>& fused, std::size_t index, std::size_t k) {
  const int input = fused[index].inputs[k];
  if (input == model::image_input) return false;
  for (std::size_t before = 0; before < k; ++before) {
    if (fused[index].inputs[before] == input) return true;
  }
  return last_consumer(fused, static_cast<std::size_t>(input)) > static_cast<int>(index);
}

}  // namespace dtrain::backend
