#include "model/cut.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/flops.hpp"
#include "model/stage_maker.hpp"

namespace dtrain::model {

namespace {

// A split layer costs a second message, which a gain below this share of the slowest stage does not pay for.
constexpr double least_gain = 0.1;

bool begins_stage(const Layer& layer) {
  return std::holds_alternative<Convolution>(layer.operation) ||
         std::holds_alternative<Dense>(layer.operation);
}

std::vector<CutPoint> with_splits(const Model& model, const std::vector<CutPoint>& whole) {
  std::vector<CutPoint> all;
  for (const CutPoint& cut : whole) {
    all.push_back(cut);
    if (!can_be_split(model, cut.layer)) continue;
    for (int channel = split_quantum; channel < channels_of(model, cut.layer); channel += split_quantum) {
      all.push_back({cut.layer, channel});
    }
  }
  return all;
}

// Seconds before each cut.
std::vector<double> costs_before(const Model& model, const std::vector<CutPoint>& cuts,
                                 const std::vector<double>& costs) {
  const auto sum = [&](int begin, int end) {
    return std::accumulate(costs.begin() + begin, costs.begin() + end, 0.0);
  };
  std::vector<double> before;
  for (const CutPoint& cut : cuts) {
    const double share =
        cut.channel == 0 ? 0.0 : static_cast<double>(cut.channel) / channels_of(model, cut.layer);
    before.push_back(sum(0, cut.layer) + share * sum(cut.layer, split_end(model, cut.layer)));
  }
  return before;
}

// Which of the places, ascending, make the slowest stage fastest; exact, by dynamic programming.
std::vector<std::size_t> best_places(const std::vector<double>& before, double total, int stages) {
  const std::size_t places = before.size();
  const auto last = static_cast<std::size_t>(stages) - 1;  // cuts
  constexpr double none = std::numeric_limits<double>::infinity();
  // slowest[k][j]: of the stages before place j, which is the k-th cut
  std::vector slowest(last, std::vector<double>(places, none));
  std::vector from(last, std::vector<std::size_t>(places, 0));
  for (std::size_t j = 0; j < places; ++j) slowest[0][j] = before[j];
  for (std::size_t k = 1; k < last; ++k) {
    for (std::size_t j = k; j < places; ++j) {
      for (std::size_t i = k - 1; i < j; ++i) {
        const double worst = std::max(slowest[k - 1][i], before[j] - before[i]);
        if (worst >= slowest[k][j]) continue;
        slowest[k][j] = worst;
        from[k][j] = i;
      }
    }
  }
  std::size_t best = last - 1;
  const auto whole = [&](std::size_t j) { return std::max(slowest[last - 1][j], total - before[j]); };
  for (std::size_t j = last; j < places; ++j) {
    if (whole(j) < whole(best)) best = j;
  }
  std::vector<std::size_t> chosen(last);
  for (std::size_t k = last; k-- > 0; best = from[k][best]) chosen[k] = best;
  return chosen;
}

std::vector<CutPoint> cut_at(const Model& model, const std::vector<CutPoint>& places, int stages,
                             const std::vector<double>& costs) {
  const double total = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::vector<CutPoint> cuts;
  for (const std::size_t place : best_places(costs_before(model, places, costs), total, stages)) {
    cuts.push_back(places[place]);
  }
  return cuts;
}

double slowest(const Model& model, const std::vector<CutPoint>& cuts, const std::vector<double>& costs) {
  return std::ranges::max(stage_costs(model, cuts, costs));
}

std::string names_of(const Model& model, const std::vector<CutPoint>& cuts) {
  std::vector<std::string> names;
  for (const CutPoint& cut : cuts) names.push_back(name_of(model, cut));
  return cuts.empty() ? "none" : join(names, ", ");
}

std::string describe_places(const Model& model, const std::vector<CutPoint>& places) {
  std::vector<std::string> split;
  for (const CutPoint& cut : places) {
    if (can_be_split(model, cut.layer)) split.push_back(name_of(model, cut));
  }
  std::string text = fmt::format("stages of {} may begin at {}", model.name, names_of(model, places));
  if (!split.empty()) {
    text += fmt::format("; inside of {} at a channel that is a multiple of {}, such as {}:{}",
                        join(split, ", "), split_quantum, split.front(), split_quantum);
  }
  return text;
}

CutPoint parse_cut(const Model& model, const std::string& text, const std::vector<CutPoint>& places) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const auto refuse = [&](const std::string& why) {
    throw usage_error(fmt::format("--cut {}: {}", text, why), describe_places(model, places));
  };
  if (std::ranges::find(model.layers, name, &Layer::name) == model.layers.end()) {
    refuse(fmt::format("{} has no layer of that name", model.name));
  }
  const auto place =
      std::ranges::find_if(places, [&](const CutPoint& cut) { return name_of(model, cut) == name; });
  if (place == places.end()) refuse("no stage can begin at this layer");
  if (colon == std::string::npos) return *place;

  const std::string number = text.substr(colon + 1);
  int channel = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), channel);
  if (error != std::errc() || end != number.data() + number.size()) {
    refuse(fmt::format("'{}' is no number of a channel", number));
  }
  if (!can_be_split(model, place->layer)) refuse("this layer cannot be split");
  const int channels = channels_of(model, place->layer);
  if (channel <= 0 || channel >= channels || channel % split_quantum != 0) {
    refuse(fmt::format("of its {} channels, a stage can begin at multiples of {}", channels, split_quantum));
  }
  return {place->layer, channel};
}

}  // namespace

std::string name_of(const Model& model, const CutPoint& cut) {
  const std::string& name = model.layers[static_cast<std::size_t>(cut.layer)].name;
  return cut.channel == 0 ? name : fmt::format("{}:{}", name, cut.channel);
}

std::vector<CutPoint> possible_cuts(const Model& model) {
  std::vector<CutPoint> cuts;
  for (int i = 1; i < static_cast<int>(model.layers.size()); ++i) {
    if (begins_stage(model.layers[static_cast<std::size_t>(i)]) && crossing(model, i)) cuts.push_back({i, 0});
  }
  return cuts;
}

std::vector<CutPoint> parse_cuts(const Model& model, const std::vector<std::string>& names) {
  const std::vector<CutPoint> places = possible_cuts(model);
  std::vector<CutPoint> cuts;
  for (const std::string& text : names) {
    const CutPoint cut = parse_cut(model, text, places);
    const auto position = [](const CutPoint& point) { return std::pair(point.layer, point.channel); };
    if (!cuts.empty() && position(cut) <= position(cuts.back())) {
      throw usage_error(fmt::format("--cut {}: {} does not come after {}", join(names, ","), text,
                                    name_of(model, cuts.back())),
                        "name the layers in the model's order, each once");
    }
    cuts.push_back(cut);
  }
  return cuts;
}

std::vector<CutPoint> cut_by_cost(const Model& model, int stages, const std::vector<double>& costs) {
  if (stages <= 1) return {};
  const std::vector<CutPoint> whole = possible_cuts(model);
  const std::vector<CutPoint> all = with_splits(model, whole);
  const auto most = [](const std::vector<CutPoint>& places) { return static_cast<int>(places.size()) + 1; };
  if (stages > most(all)) {
    throw usage_error(
        fmt::format("{} can be cut into {} stages at most, not {}", model.name, most(all), stages),
        fmt::format("use --pipeline-stages {} or less; {}", most(all), describe_places(model, whole)));
  }
  const std::vector<CutPoint> split = cut_at(model, all, stages, costs);
  if (stages > most(whole)) return split;
  const std::vector<CutPoint> between = cut_at(model, whole, stages, costs);
  const double gain = 1.0 - slowest(model, split, costs) / slowest(model, between, costs);
  return gain >= least_gain ? split : between;
}

std::vector<double> stage_costs(const Model& model, const std::vector<CutPoint>& cuts,
                                const std::vector<double>& costs) {
  std::vector<double> stages;
  double before = 0.0;
  for (const double until : costs_before(model, cuts, costs)) {
    stages.push_back(until - before);
    before = until;
  }
  stages.push_back(std::accumulate(costs.begin(), costs.end(), 0.0) - before);
  return stages;
}

std::vector<double> counted_costs(const Model& model) {
  std::vector<double> costs;
  for (const Layer& layer : model.layers) {
    const bool reads_image = layer.inputs.front() == image_input;
    costs.push_back(forward_flops(layer) * (reads_image ? 2.0 : 3.0));
  }
  return costs;
}

}  // namespace dtrain::model
