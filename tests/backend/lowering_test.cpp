#include "backend/lowering.hpp"

#include <gtest/gtest.h>

#include "model/zoo.hpp"

namespace {

using namespace dtrain;
using backend::FusedLayer;
using backend::lower;

TEST(Lowering, CnnFusesReluAndPool) {
  const model::Model cnn = model::zoo().at("cnn").value();
  const auto fused = lower(cnn);
  ASSERT_EQ(fused.size(), 5U);
  EXPECT_TRUE(fused[0].relu);
  EXPECT_EQ(cnn.layers[static_cast<std::size_t>(fused[0].pool_layer)].name, "pool1");
  EXPECT_TRUE(fused[2].relu);
  EXPECT_EQ(fused[2].pool_layer, -1);
  EXPECT_TRUE(fused[3].relu);
  EXPECT_FALSE(fused[4].relu);
  EXPECT_EQ(fused[4].inputs, std::vector<int>{3});
}

TEST(Lowering, ResidualKeepsItsTwoInputs) {
  const model::Model resnet = model::resnet9(8);
  const auto fused = lower(resnet);
  int adds = 0;
  for (const FusedLayer& layer : fused) {
    if (!std::holds_alternative<model::Add>(resnet.layers[static_cast<std::size_t>(layer.layer)].operation))
      continue;
    ++adds;
    ASSERT_EQ(layer.inputs.size(), 2U);
    EXPECT_EQ(fused[static_cast<std::size_t>(layer.inputs[0])].consumers, 2);
    EXPECT_EQ(fused[static_cast<std::size_t>(layer.inputs[1])].consumers, 1);
  }
  EXPECT_EQ(adds, 2);
}

TEST(Lowering, ReluWithAnotherReaderBeforeItStaysAlone) {
  using namespace model;
  const Model branch = build("branch", {3, 8, 8}, 10,
                             {{"c", Convolution{8, 3, 1}, {image_input}, {}, {}},
                              {"r", Relu{}, {0}, {}, {}},
                              {"a", Add{}, {0, 1}, {}, {}},
                              {"d", Dense{10}, {2}, {}, {}}});
  const auto fused = lower(branch);
  ASSERT_EQ(fused.size(), 4U);
  EXPECT_FALSE(fused[0].relu);
}

}  // namespace
