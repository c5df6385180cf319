#include "model/stage_maker.hpp"

#include <algorithm>

namespace dtrain::model {

namespace {

constexpr int absent = -2;

const Layer& layer_at(const Model& model, int layer) { return model.layers[static_cast<std::size_t>(layer)]; }

int readers(const Model& model, int layer) {
  int count = 0;
  for (const Layer& each : model.layers) count += static_cast<int>(std::ranges::count(each.inputs, layer));
  return count;
}

// Where a stage's layer comes from.
struct Source {
  int layer = absent;  // of the whole
  int channel = 0;     // the first of its channels that is here
};

// Its layers, one after the other, and where their parameters come from.
class StageMaker {
 public:
  StageMaker(const Model& whole, const std::vector<CutPoint>& cuts, int stage)
      : whole_(&whole), places_(whole.layers.size(), absent), image_(whole.image), stage_(stage) {
    const int layers = static_cast<int>(whole.layers.size());
    const CutPoint begin = stage == 0 ? CutPoint{} : cuts[static_cast<std::size_t>(stage) - 1];
    const bool last = static_cast<std::size_t>(stage) == cuts.size();
    const CutPoint end = last ? CutPoint{layers, 0} : cuts[static_cast<std::size_t>(stage)];
    if (stage > 0) receive(begin);
    const bool inside_one = begin.channel > 0 && begin.layer == end.layer;
    int next = begin.layer;
    if (begin.channel > 0) next = join_channels(begin, inside_one ? end.channel : 0);
    for (int i = next; i < end.layer; ++i) add_whole(i);
    if (!last) hand_on(end, inside_one);
  }

  Part take() {
    Part part;
    const int classes = output_elements();
    part.model = std::make_shared<const Model>(
        build(fmt::format("{}, stage {}", whole_->name, stage_), image_, classes, std::move(layers_)));
    for (const Parameter& own : part.model->parameters) {
      const Source& source = sources_[static_cast<std::size_t>(own.layer)];
      const Parameter& theirs = find(whole_->parameters, own.name, source.layer);
      const std::size_t per_channel = theirs.size / static_cast<std::size_t>(theirs.dims[0]);
      part.parameters.push_back(
          {theirs.offset + static_cast<std::size_t>(source.channel) * per_channel, own.offset, own.size});
    }
    for (const Statistic& own : part.model->statistics) {
      const Source& source = sources_[static_cast<std::size_t>(own.layer)];
      const Statistic& theirs = find(whole_->statistics, own.name, source.layer);
      part.statistics.push_back({theirs.offset, own.offset, own.size});
    }
    return part;
  }

 private:
  template <class Named>
  static const Named& find(const std::vector<Named>& all, const std::string& name, int layer) {
    return *std::ranges::find_if(all,
                                 [&](const Named& each) { return each.layer == layer && each.name == name; });
  }

  int add(std::string name, Operation operation, std::vector<int> inputs, Source source = {}) {
    Layer layer{std::move(name), std::move(operation), std::move(inputs), {}, {}};
    for (const int input : layer.inputs) {
      layer.input_shapes.push_back(input == image_input ? image_ : layer_output(input));
    }
    layer.output = infer_output(layer);
    layer.input_shapes.clear();
    layers_.push_back(std::move(layer));
    sources_.push_back(source);
    return static_cast<int>(layers_.size()) - 1;
  }

  const Shape& layer_output(int layer) const { return layers_[static_cast<std::size_t>(layer)].output; }
  int output_elements() const { return static_cast<int>(layers_.back().output.elements()); }
  int& place(int layer) { return places_[static_cast<std::size_t>(layer)]; }
  int input(int layer) { return layer == image_input ? image_input : place(layer); }

  // What the stage before hands on: the activation that crosses, and the channels that are there already.
  void receive(const CutPoint& begin) {
    const int outer = *crossing(*whole_, begin.layer);
    const Layer& source = layer_at(*whole_, outer);
    image_ = source.output;
    Shape lower = layer_at(*whole_, split_end(*whole_, begin.layer) - 1).output;
    lower.channels = begin.channel;
    if (begin.channel > 0) {
      image_ = {static_cast<int>(source.output.elements() + lower.elements()), 1, 1};
    }
    place(outer) = add(source.name + "_received", Slice{0, source.output}, {image_input});
    if (begin.channel == 0) return;
    lower_ = add(name_of(*whole_, {begin.layer, 0}) + "_received", Slice{source.output.elements(), lower},
                 {image_input});
  }

  // The rest of a layer whose lower channels were received, up to `end` or (0) all of them.
  int join_channels(const CutPoint& begin, int end) {
    const int upper =
        add_split(begin.layer, begin.channel, end > 0 ? end : channels_of(*whole_, begin.layer));
    const int behind = split_end(*whole_, begin.layer);
    lower_ = add(layer_at(*whole_, begin.layer).name + "_joined", Concatenate{}, {lower_, upper});
    place(behind - 1) = lower_;
    return behind;
  }

  int add_split(int layer, int first, int behind) {
    Layer part = layer_at(*whole_, layer);
    if (auto* convolution = std::get_if<Convolution>(&part.operation)) {
      convolution->out_channels = behind - first;
    } else {
      std::get<Dense>(part.operation).out_features = behind - first;
    }
    int last = add(part.name, part.operation, {input(part.inputs.front())}, {layer, first});
    for (int i = layer + 1; i < split_end(*whole_, layer); ++i) {
      last = add(layer_at(*whole_, i).name, layer_at(*whole_, i).operation, {last}, {i, first});
    }
    return last;
  }

  void add_whole(int layer) {
    const Layer& source = layer_at(*whole_, layer);
    std::vector<int> inputs;
    for (const int each : source.inputs) inputs.push_back(input(each));
    place(layer) = add(source.name, source.operation, std::move(inputs), {layer, 0});
  }

  void hand_on(const CutPoint& end, bool inside_one) {
    std::vector<int> handed{place(*crossing(*whole_, end.layer))};
    if (end.channel > 0) handed.push_back(inside_one ? lower_ : add_split(end.layer, 0, end.channel));
    add("handed_on", Concatenate{}, std::move(handed));
  }

  const Model* whole_;
  std::vector<int> places_;  // of the whole's layers here
  Shape image_;
  int stage_;
  int lower_ = absent;  // channels of the layer in which the stage begins
  std::vector<Layer> layers_;
  std::vector<Source> sources_;
};

}  // namespace

std::optional<int> crossing(const Model& model, int layer) {
  std::optional<int> found;
  for (int i = layer; i < static_cast<int>(model.layers.size()); ++i) {
    for (const int input : layer_at(model, i).inputs) {
      if (input >= layer || input == found) continue;
      if (input == image_input || found) return std::nullopt;
      found = input;
    }
  }
  return found;
}

int channels_of(const Model& model, int layer) { return layer_at(model, layer).output.channels; }

int split_end(const Model& model, int layer) {
  int end = layer + 1;
  const auto follows = [&](int next) {
    const Layer& after = layer_at(model, next);
    const bool by_channel =
        std::holds_alternative<Relu>(after.operation) || std::holds_alternative<MaxPool>(after.operation);
    return by_channel && after.inputs.front() == next - 1 && readers(model, next - 1) == 1;
  };
  while (end < static_cast<int>(model.layers.size()) && follows(end)) ++end;
  return end;
}

// The last layer gives the logits, which the loss wants as they are.
bool can_be_split(const Model& model, int layer) {
  const int channels = channels_of(model, layer);
  return channels > split_quantum && channels % split_quantum == 0 &&
         split_end(model, layer) < static_cast<int>(model.layers.size());
}

Part make_stage(const Model& model, const std::vector<CutPoint>& cuts, int stage) {
  return StageMaker(model, cuts, stage).take();
}

}  // namespace dtrain::model
