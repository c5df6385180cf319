#include "model/split.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "model/flops.hpp"

namespace dtrain::model {
namespace {

bool is_weighted(const Layer& layer) {
  return std::holds_alternative<Convolution>(layer.operation) ||
         std::holds_alternative<Dense>(layer.operation);
}

bool is_split(const Layer& layer, int ranks) {
  return ranks > 1 && is_weighted(layer) && layer.output.channels >= ranks;
}

Operation with_channels(Operation operation, int channels) {
  if (auto* convolution = std::get_if<Convolution>(&operation)) convolution->out_channels = channels;
  if (auto* dense = std::get_if<Dense>(&operation)) dense->out_features = channels;
  return operation;
}

constexpr int none = -2;  // neither a layer nor the image

// Writes the layers of one rank, each with what it needs of the others before it.
class Splitter {
 public:
  Splitter(const Model& whole, int rank, int ranks) : whole_(whole), rank_(rank), ranks_(ranks) {
    for (const Layer& layer : whole.layers) values_.push_back(add(layer));
  }

  Part part() {
    complete(static_cast<int>(values_.size()) - 1);  // the logits
    Part part;
    part.model =
        std::make_shared<const Model>(build(whole_.name, whole_.image, whole_.classes, std::move(layers_)));
    for (std::size_t p = 0; p < whole_.parameters.size(); ++p) {
      part.parameters.push_back(piece(whole_.parameters[p], part.model->parameters[p]));
    }
    for (std::size_t s = 0; s < whole_.statistics.size(); ++s) {
      part.statistics.push_back(piece(whole_.statistics[s], part.model->statistics[s]));
    }
    return part;
  }

 private:
  // The output of a layer of the whole: which layers here have it.
  struct Value {
    int layer = none;  // its own channels if it is split, else all of them
    bool split = false;
    bool trained = false;  // parameters come before it, so that its gradient is needed
    int complete = none;   // all channels
    int summed = none;     // all channels, for layers whose gradients are partial sums
  };

  Value add(const Layer& layer) {
    Value made;
    made.trained = is_weighted(layer) || std::holds_alternative<BatchNorm>(layer.operation);
    for (const int input : layer.inputs) made.trained = made.trained || (input >= 0 && value(input).trained);
    Layer here{layer.name, layer.operation, {}, {}, {}};
    if (is_weighted(layer)) {
      made.split = is_split(layer, ranks_);
      if (made.split) here.operation = with_channels(layer.operation, shares(layer.output.channels)[index()]);
      here.inputs = {made.split ? summed(layer.inputs.front()) : complete(layer.inputs.front())};
    } else {
      made.split = std::ranges::all_of(layer.inputs, [&](int i) { return i >= 0 && value(i).split; });
      for (const int input : layer.inputs) {
        here.inputs.push_back(made.split ? value(input).layer : complete(input));
      }
    }
    made.layer = append(std::move(here));
    return made;
  }

  int complete(int input) {
    if (input == image_input) return input;
    Value& it = value(input);
    if (!it.split) return it.layer;
    if (it.complete == none) {
      const Layer& layer = whole_.layers[static_cast<std::size_t>(input)];
      it.complete =
          append({layer.name + "_gather", GatherChannels{shares(layer.output.channels)}, {it.layer}, {}, {}});
    }
    return it.complete;
  }

  int summed(int input) {
    const int all = complete(input);
    if (input == image_input || !value(input).trained) return all;
    Value& it = value(input);
    if (it.summed == none) {
      const std::string& name = whole_.layers[static_cast<std::size_t>(input)].name;
      it.summed = append({name + "_sum", SumGradients{}, {all}, {}, {}});
    }
    return it.summed;
  }

  int append(Layer layer) {
    layers_.push_back(std::move(layer));
    return static_cast<int>(layers_.size()) - 1;
  }

  // Parameter or statistic: its first dimension is that of the layer's channels.
  template <class Tensor>
  Piece piece(const Tensor& whole, const Tensor& here) const {
    const Value& its = values_[static_cast<std::size_t>(whole.layer)];
    if (!its.split) return {whole.offset, here.offset, whole.size, rank_ == 0};
    const int channels = whole_.layers[static_cast<std::size_t>(whole.layer)].output.channels;
    const std::vector<int> all = shares(channels);
    const auto before = static_cast<std::size_t>(std::accumulate(all.begin(), all.begin() + rank_, 0));
    const std::size_t per_channel = whole.size / static_cast<std::size_t>(channels);
    return {whole.offset + before * per_channel, here.offset, here.size};
  }

  std::vector<int> shares(int channels) const { return channel_shares(channels, ranks_); }
  std::size_t index() const { return static_cast<std::size_t>(rank_); }
  Value& value(int layer) { return values_[static_cast<std::size_t>(layer)]; }

  const Model& whole_;
  int rank_;
  int ranks_;
  std::vector<Value> values_;  // by layer of the whole
  std::vector<Layer> layers_;  // of this rank
};

}  // namespace

std::vector<int> channel_shares(int channels, int ranks) {
  std::vector<int> shares(static_cast<std::size_t>(ranks), channels / ranks);
  std::fill_n(shares.begin(), channels % ranks, channels / ranks + 1);
  return shares;
}

Part split_channels(const Model& whole, int rank, int ranks) {
  if (rank < 0 || rank >= ranks) throw std::logic_error("a model split for a rank that is not there");
  return Splitter(whole, rank, ranks).part();
}

SplitCounts count_split(const Model& whole, int ranks) {
  SplitCounts counts;
  double repeated = 0.0;
  for (const Layer& layer : whole.layers) {
    if (!is_weighted(layer)) continue;
    const bool split = is_split(layer, ranks);
    ++(split ? counts.split_layers : counts.whole_layers);
    if (!split && ranks > 1) repeated += forward_flops(layer);
  }
  const Part part = split_channels(whole, 0, ranks);
  for (const Layer& layer : part.model->layers) {
    if (std::holds_alternative<GatherChannels>(layer.operation)) counts.gathered.push_back(layer.output);
    if (std::holds_alternative<SumGradients>(layer.operation)) counts.summed.push_back(layer.output);
  }
  if (repeated > 0.0) counts.repeated_share = repeated / forward_flops(*part.model);
  return counts;
}

}  // namespace dtrain::model
