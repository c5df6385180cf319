#include "model/split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "model/flops.hpp"
#include "model/zoo.hpp"

namespace {

using namespace dtrain::model;

Model make(const std::string& name) { return zoo().at(name).value(); }

std::string inputs_of(const Model& model, const Layer& layer) {
  std::string text;
  for (const int input : layer.inputs) {
    text += ' ' + (input == image_input ? "image" : model.layers[static_cast<std::size_t>(input)].name);
  }
  return text;
}

// "name(channels) < inputs", one a layer.
std::vector<std::string> outline(const Model& model) {
  std::vector<std::string> lines;
  for (const Layer& layer : model.layers) {
    lines.push_back(layer.name + '(' + std::to_string(layer.output.channels) + ") <" +
                    inputs_of(model, layer));
  }
  return lines;
}

// 1, 2, 3, ... so that every place has a value of its own.
std::vector<float> numbered(std::size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

// What the parts of all ranks make of the whole's values when each gives its own, added up.
std::vector<float> taken_and_put(const Model& whole, int ranks, bool statistics) {
  const std::size_t size = statistics ? whole.statistic_count : whole.parameter_count;
  const std::vector<float> values = numbered(size);
  std::vector<float> sum(size, 0.0F);
  for (int rank = 0; rank < ranks; ++rank) {
    const Part part = split_channels(whole, rank, ranks);
    const auto& pieces = statistics ? part.statistics : part.parameters;
    const std::size_t own = statistics ? part.model->statistic_count : part.model->parameter_count;
    const std::vector<float> mine = take_part(values, pieces, own);
    for (const float value : mine) EXPECT_GT(value, 0.0F) << "a place of the part that no piece fills";
    std::vector<float> put(size, 0.0F);
    put_part(mine, pieces, put);
    for (std::size_t i = 0; i < size; ++i) sum[i] += put[i];
  }
  return sum;
}

TEST(ChannelShares, DifferByOneAtMostLargerOnesFirst) {
  EXPECT_EQ(channel_shares(10, 4), (std::vector{3, 3, 2, 2}));
  EXPECT_EQ(channel_shares(64, 4), (std::vector{16, 16, 16, 16}));
  EXPECT_EQ(channel_shares(5, 1), (std::vector{5}));
}

TEST(SplitChannels, GathersBehindReluAndPoolAndSumsBeforeEverySplitLayerButTheFirst) {
  const Part part = split_channels(make("cnn"), 1, 4);
  EXPECT_EQ(outline(*part.model),
            (std::vector<std::string>{"conv1(8) < image",         "relu1(8) < conv1",
                                      "pool1(8) < relu1",  //
                                      "pool1_gather(32) < pool1", "pool1_sum(32) < pool1_gather",
                                      "conv2(16) < pool1_sum",                          //
                                      "relu2(16) < conv2",        "pool2(16) < relu2",  //
                                      "pool2_gather(64) < pool2", "pool2_sum(64) < pool2_gather",
                                      "conv3(16) < pool2_sum",  //
                                      "relu3(16) < conv3",      //
                                      "relu3_gather(64) < relu3", "relu3_sum(64) < relu3_gather",
                                      "dense1(16) < relu3_sum",
                                      "relu4(16) < dense1",  //
                                      "relu4_gather(64) < relu4", "relu4_sum(64) < relu4_gather",
                                      "dense2(3) < relu4_sum",    "dense2_gather(10) < dense2"}));
  const auto& logits = std::get<GatherChannels>(part.model->layers.back().operation);
  EXPECT_EQ(logits.channels, (std::vector{3, 3, 2, 2}));
}

TEST(SplitChannels, AddsSlicesAndGathersWhatSeveralReadOnce) {
  const Part part = split_channels(resnet9(8), 0, 2);
  const auto lines = outline(*part.model);
  const std::vector<std::string> residual{"l1_pool(8) < l1_relu",
                                          "l1_pool_gather(16) < l1_pool",
                                          "l1_pool_sum(16) < l1_pool_gather",
                                          "r1a(8) < l1_pool_sum",
                                          "r1a(8) < r1a",
                                          "r1a_relu(8) < r1a",
                                          "r1a_relu_gather(16) < r1a_relu",
                                          "r1a_relu_sum(16) < r1a_relu_gather",
                                          "r1b(8) < r1a_relu_sum",
                                          "r1b(8) < r1b",
                                          "r1b_relu(8) < r1b",
                                          "r1_add(8) < l1_pool r1b_relu",
                                          "r1_add_gather(16) < r1_add"};
  EXPECT_NE(std::ranges::search(lines, residual).begin(), lines.end());

  const Model twice = build("m", {1, 4, 4}, 4,
                            {{"a", Convolution{4, 3, 1}, {image_input}, {}, {}},
                             {"b", Convolution{4, 3, 1}, {0}, {}, {}},
                             {"c", Convolution{4, 3, 1}, {0}, {}, {}},
                             {"sum", Add{}, {1, 2}, {}, {}},
                             {"dense", Dense{4}, {3}, {}, {}}});
  EXPECT_EQ(
      outline(*split_channels(twice, 1, 2).model),
      (std::vector<std::string>{"a(2) < image", "a_gather(4) < a", "a_sum(4) < a_gather", "b(2) < a_sum",
                                "c(2) < a_sum", "sum(2) < b c", "sum_gather(4) < sum",
                                "sum_sum(4) < sum_gather", "dense(2) < sum_sum", "dense_gather(4) < dense"}));
}

TEST(SplitChannels, KeepsLayersWithFewerChannelsThanRanksWhole) {
  const Model model = build("m", {1, 4, 4}, 4,
                            {{"narrow", Convolution{2, 3, 1}, {image_input}, {}, {}},
                             {"norm", BatchNorm{}, {0}, {}, {}},
                             {"wide", Convolution{6, 3, 1}, {1}, {}, {}},
                             {"again", Convolution{2, 3, 1}, {2}, {}, {}},
                             {"add", Add{}, {1, 3}, {}, {}},
                             {"dense", Dense{4}, {4}, {}, {}}});
  for (int rank = 0; rank < 3; ++rank) {
    const Part part = split_channels(model, rank, 3);
    const std::string dense = rank == 0 ? "dense(2) < add_sum" : "dense(1) < add_sum";
    EXPECT_EQ(outline(*part.model),
              (std::vector<std::string>{"narrow(2) < image", "norm(2) < narrow", "norm_sum(2) < norm",
                                        "wide(2) < norm_sum", "wide_gather(6) < wide",
                                        "again(2) < wide_gather", "add(2) < norm again", "add_sum(2) < add",
                                        dense, "dense_gather(4) < dense"}));
    for (std::size_t p = 0; p < 4; ++p) {  // narrow_w, narrow_b, norm_gamma, norm_beta
      EXPECT_EQ(part.parameters[p].given, rank == 0);
      EXPECT_EQ(part.parameters[p].size, model.parameters[p].size);
    }
    for (const Piece& piece : part.statistics) EXPECT_EQ(piece.given, rank == 0);
  }
}

TEST(SplitChannels, DoesNotSumGradientsThatNobodyNeeds) {
  const Model model = build("m", {1, 4, 4}, 4,
                            {{"pool", MaxPool{2}, {image_input}, {}, {}}, {"dense", Dense{4}, {0}, {}, {}}});
  EXPECT_EQ(outline(*split_channels(model, 0, 2).model),
            (std::vector<std::string>{"pool(1) < image", "dense(2) < pool", "dense_gather(4) < dense"}));
}

TEST(SplitChannels, IntoOneIsTheWhole) {
  for (const char* name : {"mlp", "cnn", "resnet9"}) {
    const Model whole = make(name);
    EXPECT_EQ(outline(*split_channels(whole, 0, 1).model), outline(whole));
  }
}

TEST(SplitChannels, PartsGiveEveryElementExactlyOnce) {
  for (const int ranks : {1, 2, 3, 4, 7, 16}) {
    for (const Model& whole : {make("mlp"), make("cnn"), resnet9(8)}) {
      EXPECT_EQ(taken_and_put(whole, ranks, false), numbered(whole.parameter_count))
          << whole.name << ' ' << ranks;
      EXPECT_EQ(taken_and_put(whole, ranks, true), numbered(whole.statistic_count))
          << whole.name << ' ' << ranks;
    }
  }
}

TEST(SplitChannels, TakesTheRowsOfItsChannels) {
  const Model whole = make("mlp");
  const std::vector<float> values = numbered(whole.parameter_count);
  const Part part = split_channels(whole, 2, 4);
  const std::vector<float> mine = take_part(values, part.parameters, part.model->parameter_count);
  ASSERT_EQ(part.model->parameter_count, 32U * 3072 + 32 + 2 * 128 + 2);
  EXPECT_EQ(mine[0], 1.0F + 64 * 3072);                                // dense1_w from row 64 on
  EXPECT_EQ(mine[32 * 3072], 1.0F + 128 * 3072 + 64);                  // dense1_b
  EXPECT_EQ(mine[32 * 3072 + 32], 1.0F + 128 * 3072 + 128 + 6 * 128);  // dense2_w, after rows 3 + 3
}

TEST(CountSplit, TellsLayersCollectivesAndWhatIsRepeated) {
  const SplitCounts four = count_split(make("cnn"), 4);
  EXPECT_EQ(four.split_layers, 5);
  EXPECT_EQ(four.whole_layers, 0);
  EXPECT_EQ(four.repeated_share, 0.0);
  EXPECT_EQ(four.gathered,
            (std::vector<Shape>{{32, 15, 15}, {64, 6, 6}, {64, 4, 4}, {64, 1, 1}, {10, 1, 1}}));
  EXPECT_EQ(four.summed, (std::vector<Shape>{{32, 15, 15}, {64, 6, 6}, {64, 4, 4}, {64, 1, 1}}));

  const SplitCounts sixteen = count_split(make("mlp"), 16);  // 128 channels split, 10 whole
  EXPECT_EQ(sixteen.split_layers, 1);
  EXPECT_EQ(sixteen.whole_layers, 1);
  EXPECT_DOUBLE_EQ(sixteen.repeated_share, 1280.0 / (1280.0 + 3072 * 8));
  EXPECT_TRUE(sixteen.summed.empty());

  const SplitCounts one = count_split(make("cnn"), 1);
  EXPECT_TRUE(one.gathered.empty());
  EXPECT_EQ(one.whole_layers, 5);
  EXPECT_EQ(one.repeated_share, 0.0);
}

TEST(Flops, OfPartsAreThoseOfTheWhole) {
  const Model whole = make("cnn");
  double sum = 0.0;
  for (int rank = 0; rank < 3; ++rank) sum += forward_flops(*split_channels(whole, rank, 3).model);
  EXPECT_DOUBLE_EQ(sum, forward_flops(whole));
}

}  // namespace
