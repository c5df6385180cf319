#include "model/cut.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.hpp"
#include "model/zoo.hpp"

namespace dtrain::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Model zoo_model(const std::string& name) { return zoo().at(name).value(); }

std::vector<std::string> names(const Model& model, const std::vector<CutPoint>& cuts) {
  std::vector<std::string> found;
  for (const CutPoint& cut : cuts) found.push_back(name_of(model, cut));
  return found;
}

// The first two layers of names in `costs` cost that, all others nothing.
std::vector<double> costs_of(const Model& model, const std::vector<std::pair<std::string, double>>& costs) {
  std::vector<double> all(model.layers.size(), 0.0);
  for (const auto& [name, cost] : costs) {
    const auto layer = std::ranges::find(model.layers, name, &Layer::name);
    all[static_cast<std::size_t>(layer - model.layers.begin())] = cost;
  }
  return all;
}

std::vector<std::string> layers_of(const Part& part) {
  std::vector<std::string> found;
  for (const Layer& layer : part.model->layers) found.push_back(layer.name);
  return found;
}

TEST(Cut, MayBeBeforeConvolutionsAndDenseLayersThatOneActivationReaches) {
  EXPECT_THAT(names(zoo_model("cnn"), possible_cuts(zoo_model("cnn"))),
              ElementsAre("conv2", "conv3", "dense1", "dense2"));
  EXPECT_THAT(names(zoo_model("mlp"), possible_cuts(zoo_model("mlp"))), ElementsAre("dense2"));
  // r1b and r3b lie inside of residual blocks.
  EXPECT_THAT(names(zoo_model("resnet9"), possible_cuts(zoo_model("resnet9"))),
              ElementsAre("l1", "r1a", "l2", "l3", "r3a", "fc"));
}

TEST(Cut, ByCostMakesTheSlowestStageFastest) {
  const Model cnn = zoo_model("cnn");
  const auto costs =
      costs_of(cnn, {{"conv1", 2.0}, {"conv2", 3.0}, {"conv3", 4.0}, {"dense1", 1.0}, {"dense2", 0.5}});
  EXPECT_THAT(names(cnn, cut_by_cost(cnn, 1, costs)), ElementsAre());
  EXPECT_THAT(names(cnn, cut_by_cost(cnn, 2, costs)), ElementsAre("conv3"));
  EXPECT_THAT(stage_costs(cnn, cut_by_cost(cnn, 2, costs), costs), ElementsAre(5.0, 5.5));
  EXPECT_THAT(stage_costs(cnn, parse_cuts(cnn, {"conv2", "dense1"}), costs), ElementsAre(2.0, 7.0, 1.5));
  const auto five = costs_of(cnn, {{"conv1", 1}, {"conv2", 1}, {"conv3", 1}, {"dense1", 1}, {"dense2", 1}});
  EXPECT_THAT(names(cnn, cut_by_cost(cnn, 5, five)), ElementsAre("conv2", "conv3", "dense1", "dense2"));
}

// Against all there are: every pair of places, with random costs.
TEST(Cut, ByCostIsExact) {
  const Model resnet = zoo_model("resnet9");
  const auto places = possible_cuts(resnet);
  for (int seed = 1; seed <= 20; ++seed) {
    std::vector<double> costs(resnet.layers.size());
    for (std::size_t i = 0; i < costs.size(); ++i) {
      // Layers that can be split cost so little that splitting gains nothing.
      costs[i] = std::holds_alternative<Convolution>(resnet.layers[i].operation)
                     ? 1e-6
                     : static_cast<double>((i * 7919 + static_cast<std::size_t>(seed) * 104729) % 97);
    }
    double best = 1e9;
    for (std::size_t a = 0; a < places.size(); ++a) {
      for (std::size_t b = a + 1; b < places.size(); ++b) {
        best = std::min(best, std::ranges::max(stage_costs(resnet, {places[a], places[b]}, costs)));
      }
    }
    const auto found = stage_costs(resnet, cut_by_cost(resnet, 3, costs), costs);
    EXPECT_NEAR(std::ranges::max(found), best, 1e-4) << seed;
  }
}

TEST(Cut, SplitsALayerThatIsTooLargeForAStage) {
  const Model cnn = zoo_model("cnn");
  const auto costs = costs_of(cnn, {{"conv1", 16.0}, {"conv2", 69.0}, {"conv3", 15.0}});
  EXPECT_THAT(names(cnn, cut_by_cost(cnn, 2, costs)), ElementsAre("conv2:32"));
  EXPECT_THAT(stage_costs(cnn, cut_by_cost(cnn, 2, costs), costs), ElementsAre(50.5, 49.5));
  // 69 over three: 16 | 34.5 | 34.5 + 15 against 33.25 | 34.5 | 32.25
  EXPECT_THAT(names(cnn, cut_by_cost(cnn, 3, costs)), ElementsAre("conv2:16", "conv2:48"));
}

TEST(Cut, RefusesMoreStagesThanThereArePlaces) {
  const Model mlp = zoo_model("mlp");
  try {
    cut_by_cost(mlp, 3, counted_costs(mlp));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::usage);
    EXPECT_THAT(error.what(), HasSubstr("mlp can be cut into 2 stages at most, not 3"));
    EXPECT_THAT(error.advice(), HasSubstr("dense2"));
  }
}

TEST(Cut, NamesWhatIsWrongAndWhatIsPossible) {
  const Model cnn = zoo_model("cnn");
  EXPECT_EQ(parse_cuts(cnn, {"conv2:48", "dense1"}), (std::vector<CutPoint>{{3, 48}, {8, 0}}));
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"conv9"}, "--cut conv9: cnn has no layer of that name"},
      {{""}, "--cut : cnn has no layer of that name"},
      {{"relu1"}, "--cut relu1: no stage can begin at this layer"},
      {{"conv1"}, "--cut conv1: no stage can begin at this layer"},
      {{"conv2:x"}, "--cut conv2:x: 'x' is no number of a channel"},
      {{"conv2:64"}, "--cut conv2:64: of its 64 channels, a stage can begin at multiples of 16"},
      {{"conv2:8"}, "--cut conv2:8: of its 64 channels"},
      {{"conv2:-16"}, "--cut conv2:-16: of its 64 channels"},
      {{"dense2:5"}, "--cut dense2:5: this layer cannot be split"},
      {{"conv3", "conv2"}, "--cut conv3,conv2: conv2 does not come after conv3"},
      {{"conv3", "conv3"}, "conv3 does not come after conv3"}};
  for (const auto& [cuts, message] : wrong) {
    try {
      parse_cuts(cnn, cuts);
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::usage);
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_NE(std::string(error.advice()), "");
    }
  }
}

TEST(Stage, HoldsItsLayersBehindWhatItReceives) {
  const Model cnn = zoo_model("cnn");
  const auto cuts = parse_cuts(cnn, {"conv3", "dense2"});
  const Part first = make_stage(cnn, cuts, 0);
  EXPECT_THAT(layers_of(first),
              ElementsAre("conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "handed_on"));
  EXPECT_EQ(first.model->image, cnn.image);
  EXPECT_EQ(first.model->layers.back().output, (Shape{64, 6, 6}));
  const Part middle = make_stage(cnn, cuts, 1);
  EXPECT_THAT(layers_of(middle),
              ElementsAre("pool2_received", "conv3", "relu3", "dense1", "relu4", "handed_on"));
  EXPECT_EQ(middle.model->image, (Shape{64, 6, 6}));
  const Part last = make_stage(cnn, cuts, 2);
  EXPECT_THAT(layers_of(last), ElementsAre("relu4_received", "dense2"));
  EXPECT_EQ(last.model->classes, 10);
}

TEST(Stage, OfASplitLayerHandsOnItsInputToo) {
  const Model cnn = zoo_model("cnn");
  const auto cuts = parse_cuts(cnn, {"conv2:16", "conv2:48"});
  const Part first = make_stage(cnn, cuts, 0);
  EXPECT_THAT(layers_of(first),
              ElementsAre("conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "handed_on"));
  EXPECT_EQ(first.model->layers[3].output.channels, 16);
  EXPECT_EQ(first.model->layers.back().output.elements(), 32U * 15 * 15 + 16U * 6 * 6);
  const Part middle = make_stage(cnn, cuts, 1);
  EXPECT_THAT(layers_of(middle), ElementsAre("pool1_received", "conv2_received", "conv2", "relu2", "pool2",
                                             "conv2_joined", "handed_on"));
  EXPECT_EQ(middle.model->layers.back().output.elements(), 32U * 15 * 15 + 48U * 6 * 6);
  const Part last = make_stage(cnn, cuts, 2);
  EXPECT_THAT(layers_of(last), ElementsAre("pool1_received", "conv2_received", "conv2", "relu2", "pool2",
                                           "conv2_joined", "conv3", "relu3", "dense1", "relu4", "dense2"));
  EXPECT_EQ(last.model->layers[5].output, (Shape{64, 6, 6}));
}

// Every parameter and statistic lies in exactly one stage, whatever the cut.
TEST(Stage, TogetherTheyAreTheWhole) {
  for (const char* name : {"mlp", "cnn", "resnet9"}) {
    const Model model = zoo_model(name);
    std::vector<float> whole(model.parameter_count);
    std::iota(whole.begin(), whole.end(), 1.0F);
    std::vector<float> statistics(model.statistic_count);
    std::iota(statistics.begin(), statistics.end(), 1.0F);
    const int most = std::string(name) == "mlp" ? 2 : 6;
    for (int stages = 1; stages <= most; ++stages) {
      const auto cuts = cut_by_cost(model, stages, counted_costs(model));
      ASSERT_THAT(cuts, SizeIs(static_cast<std::size_t>(stages) - 1));
      std::vector<float> joined(whole.size(), 0.0F);
      std::vector<float> joined_statistics(statistics.size(), 0.0F);
      std::size_t parameters = 0;
      for (int stage = 0; stage < stages; ++stage) {
        const Part part = make_stage(model, cuts, stage);
        parameters += part.model->parameter_count;
        put_part(take_part(whole, part.parameters, part.model->parameter_count), part.parameters, joined);
        put_part(take_part(statistics, part.statistics, part.model->statistic_count), part.statistics,
                 joined_statistics);
      }
      EXPECT_EQ(parameters, model.parameter_count) << name << " in " << stages;
      EXPECT_EQ(joined, whole) << name << " in " << stages;
      EXPECT_EQ(joined_statistics, statistics) << name << " in " << stages;
    }
  }
}

}  // namespace
}  // namespace dtrain::model
