#include "model/model.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/flops.hpp"
#include "model/zoo.hpp"

namespace {

using namespace dtrain::model;

Model make(const std::string& name) { return zoo().at(name).value(); }

TEST(Zoo, ParameterCountsAreThePublishedOnes) {
  EXPECT_EQ(make("cnn").parameter_count, 122'570U);
  EXPECT_EQ(make("resnet9").parameter_count, 6'573'130U);
  EXPECT_EQ(resnet9(8).parameter_count, 103'954U);
  EXPECT_EQ(make("mlp").parameter_count, 3072U * 128 + 128 + 128 * 10 + 10);
}

TEST(Zoo, NamesMatchTheirSummaries) {
  for (const auto& entry : zoo().entries()) EXPECT_EQ(entry.value().name, entry.name);
}

TEST(Flops, AreThoseCountedByHand) {
  // conv1 27*32*900, conv2 288*64*169, conv3 576*64*16, dense 1024*64 and 64*10 multiply-adds
  const double forward = 2.0 * (27.0 * 32 * 900 + 288.0 * 64 * 169 + 576.0 * 64 * 16 + 1024.0 * 64 + 640);
  EXPECT_DOUBLE_EQ(forward_flops(make("cnn")), forward);
  EXPECT_DOUBLE_EQ(training_flops(make("cnn")), 3.0 * forward - 2.0 * 27 * 32 * 900);
  EXPECT_NEAR(training_flops(make("cnn")) / 1e6, 25.7, 0.05);
  EXPECT_NEAR(training_flops(make("resnet9")) / 1e9, 2.27, 0.01);
}

// mlp: dense 3072 -> 128, ReLU, dense 128 -> 10.
TEST(Bytes, AreThoseCountedByHand) {
  const double first = 2 * (3072 + 128);  // no gradient of the images
  const double second = 3 * (128 + 10);
  EXPECT_DOUBLE_EQ(training_bytes(make("mlp"), 4), 4 * (first + second));
  EXPECT_DOUBLE_EQ(training_bytes(make("mlp"), 2), 2 * (first + second));
  EXPECT_DOUBLE_EQ(update_bytes(make("mlp"), 4, 2), 394634.0 * (8 + 32));
  EXPECT_DOUBLE_EQ(update_bytes(make("mlp"), 2, 0), 394634.0 * (4 + 16));
}

TEST(Bytes, OfEveryKindOfLayer) {
  const Model model = build("m", {1, 4, 4}, 10,
                            {{"conv", Convolution{2, 3, 1, false}, {image_input}, {}, {}},
                             {"norm", BatchNorm{}, {0}, {}, {}},
                             {"relu", Relu{}, {1}, {}, {}},
                             {"pool", MaxPool{2}, {2}, {}, {}},
                             {"sum", Add{}, {3, 3}, {}, {}},
                             {"dense", Dense{10}, {4}, {}, {}}});
  const double convolution = 2 * (16 + 32);
  const double norm = (32 + 32) + (32 + 32 + 32);  // forward; gradient, input again, input gradient
  const double pool = 2 * (32 + 8);
  const double sum = 8 + 8 + 8;
  const double dense = 3 * (8 + 10);
  EXPECT_DOUBLE_EQ(training_bytes(model, 1), convolution + norm + pool + sum + dense);
}

TEST(Model, ShapesAreInferred) {
  const Model cnn = make("cnn");
  EXPECT_EQ(cnn.layers[0].output, (Shape{32, 30, 30}));
  EXPECT_EQ(cnn.layers[2].output, (Shape{32, 15, 15}));
  EXPECT_EQ(cnn.layers[5].output, (Shape{64, 6, 6}));
  EXPECT_EQ(cnn.layers[7].output, (Shape{64, 4, 4}));
  EXPECT_FALSE(cnn.has_batch_statistics());
  EXPECT_TRUE(make("resnet9").has_batch_statistics());
}

TEST(Model, ParametersLieBehindEachOther) {
  for (const auto& entry : zoo().entries()) {
    const Model model = entry.value();
    std::size_t offset = 0;
    for (const auto& parameter : model.parameters) {
      EXPECT_EQ(parameter.offset, offset) << parameter.name;
      offset += parameter.size;
    }
    EXPECT_EQ(offset, model.parameter_count);
  }
}

TEST(Model, RefusesGraphsThatDoNotFit) {
  const Shape image{3, 8, 8};
  EXPECT_THROW(build("x", image, 10, {}), std::logic_error);
  EXPECT_THROW(build("x", image, 10, {{"d", Dense{9}, {image_input}, {}, {}}}), std::logic_error);
  EXPECT_THROW(build("x", image, 10, {{"c", Convolution{4, 9}, {image_input}, {}, {}}}), std::logic_error);
  EXPECT_THROW(build("x", image, 10, {{"d", Dense{10}, {0}, {}, {}}}), std::logic_error);
  EXPECT_THROW(build("x", image, 10,
                     {{"c", Convolution{4}, {image_input}, {}, {}}, {"a", Add{}, {0, image_input}, {}, {}}}),
               std::logic_error);
}

TEST(InitialWeights, DependOnTheSeedAlone) {
  const Model cnn = make("cnn");
  EXPECT_EQ(initial_weights(cnn, 1), initial_weights(cnn, 1));
  EXPECT_NE(initial_weights(cnn, 1), initial_weights(cnn, 2));
}

TEST(InitialWeights, HaveTheVarianceOfTheirRule) {
  const Model cnn = make("cnn");
  const auto weights = initial_weights(cnn, 0);
  for (const auto& parameter : cnn.parameters) {
    double squares = 0.0;
    for (std::size_t i = 0; i < parameter.size; ++i) squares += std::pow(weights[parameter.offset + i], 2);
    const double variance = squares / static_cast<double>(parameter.size);
    if (parameter.dims.size() == 1) {
      EXPECT_EQ(variance, 0.0) << parameter.name;
    } else {
      const double fan_in = static_cast<double>(parameter.size) / parameter.dims[0];
      const bool last = parameter.name == "dense2_w";
      const double expected = last ? 2.0 / (fan_in + parameter.dims[0]) : 2.0 / fan_in;
      EXPECT_NEAR(variance / expected, 1.0, 0.15) << parameter.name;
    }
  }
}

TEST(InitialStatistics, AreMeanZeroVarianceOne) {
  const Model model = resnet9(8);
  const auto values = initial_statistics(model);
  for (const auto& statistic : model.statistics) {
    const float expected = statistic.name.ends_with("_variance") ? 1.0F : 0.0F;
    for (std::size_t i = 0; i < statistic.size; ++i) EXPECT_EQ(values[statistic.offset + i], expected);
  }
}

}  // namespace
