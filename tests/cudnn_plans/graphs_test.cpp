// What graphs are for a model, without asking cuDNN for plans.
#include "backend/cuda/cudnn/graphs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/zoo.hpp"
#include "model_graphs.hpp"

namespace dtrain::backend::cuda {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<std::string> signatures_of(const std::string& model, int batch, Element element) {
  std::vector<std::string> lines;
  for (const NamedGraph& graph : graphs_of(model::zoo().at(model).value(), batch, element)) {
    lines.push_back(graph.layer + ": " + signature(graph.spec));
  }
  return lines;
}

// The image has 8 channels in 16 bits, of which 5 are padding, and 4 in fp32.
TEST(ModelGraphs, OfTheMlpAreItsLayersWithoutAGradientForTheImage) {
  EXPECT_THAT(signatures_of("mlp", 64, Element::bf16),
              ElementsAre("dense1: dense forward n64 in8192 out128 bf16 +bias +relu",
                          "dense1: dense weight gradient n64 in8192 out128 bf16",
                          "dense2: dense forward n64 in128 out10 bf16 +bias",
                          "dense2: dense weight gradient n64 in128 out10 bf16",
                          "dense2: dense data gradient n64 in128 out10 bf16"));
}

TEST(ModelGraphs, OfTheCnnDropIncompleteWindows) {
  const auto lines = signatures_of("cnn", 33, Element::f32);
  EXPECT_THAT(lines, Contains("conv1: convolution forward n33 c4 h32 w32 k32 r3 p0 f32 +bias +relu"));
  EXPECT_THAT(lines, Contains("pool2: max pool forward n33 c64 h13 w13 f32 size 2 +index"));
  EXPECT_THAT(lines, Contains("conv3: convolution forward n33 c64 h6 w6 k64 r3 p0 f32 +bias +relu"));
  EXPECT_THAT(lines, Contains("dense1: dense forward n33 in1024 out64 f32 +bias +relu"));
}

TEST(ModelGraphs, OfResnetAreListedOnce) {
  const auto lines = signatures_of("resnet9", 64, Element::f16);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(), lines.size());
  // r1a and r1b are the same convolution; both are 128 to 128 channels.
  const auto same = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("convolution forward n64 c128 h16 w16 k128 r3 p1 f16") != std::string::npos;
  });
  EXPECT_EQ(same, 1);
  EXPECT_THAT(lines, Contains("prep: batch norm forward n64 c64 h32 w32 f16 +relu epsilon 1e-05"));
}

TEST(Signatures, TellEveryDifference) {
  const ConvolutionShape shape{64, 3, 32, 32, 32, 3, 0};
  ConvolutionShape padded = shape;
  padded.padding = 1;
  const ActivationShape image{64, 32, 30, 30};
  const std::vector<GraphSpec> specs{ConvolutionForward{shape, Element::f32, false, false},
                                     ConvolutionForward{shape, Element::f32, true, false},
                                     ConvolutionForward{shape, Element::f32, true, true},
                                     ConvolutionForward{shape, Element::bf16, true, true},
                                     ConvolutionForward{padded, Element::f32, false, false},
                                     ConvolutionDataGradient{shape, Element::f32},
                                     ConvolutionWeightGradient{shape, Element::f32},
                                     BatchNormForward{.shape = image},
                                     BatchNormForward{.shape = image, .relu = true},
                                     BatchNormForward{.shape = image, .epsilon = 2e-5F},
                                     BatchNormBackward{image, Element::f32},
                                     MaxPoolForward{image, 2, Element::f32, false},
                                     MaxPoolForward{image, 2, Element::f32, true},
                                     MaxPoolForward{image, 4, Element::f32, true},
                                     MaxPoolBackward{image, 2, Element::f32}};
  std::set<std::string> lines;
  for (const GraphSpec& spec : specs) lines.insert(signature(spec));
  EXPECT_EQ(lines.size(), specs.size());
}

std::vector<std::pair<Role, std::size_t>> tensors_of(const GraphSpec& spec) {
  std::vector<std::pair<Role, std::size_t>> uses;
  for (const TensorUse& use : build_graph(spec).tensors) uses.emplace_back(use.role, use.bytes);
  return uses;
}

TEST(Graphs, NameTheirTensorsAndBytes) {
  const ConvolutionShape shape{2, 3, 8, 8, 16, 3, 0};
  EXPECT_THAT(
      tensors_of(ConvolutionForward{shape, Element::bf16, true, true}),
      UnorderedElementsAre(std::pair(Role::x, 2U * 3 * 8 * 8 * 2), std::pair(Role::w, 16U * 3 * 3 * 3 * 2),
                           std::pair(Role::bias, 16U * 2), std::pair(Role::y, 2U * 16 * 6 * 6 * 2)));
  EXPECT_THAT(
      tensors_of(MaxPoolForward{{2, 3, 13, 13}, 2, Element::f32, true}),
      UnorderedElementsAre(std::pair(Role::x, 2U * 3 * 13 * 13 * 4), std::pair(Role::y, 2U * 3 * 6 * 6 * 4),
                           std::pair(Role::index, 2U * 3 * 6 * 6)));
}

TEST(Graphs, OfBatchNormBindTheirScalarThemselves) {
  const OperationGraph graph = build_graph(BatchNormForward{{2, 16, 6, 6}, Element::f16, false, 1e-3F});
  EXPECT_EQ(graph.tensors.size(), 6U);
  ASSERT_EQ(graph.scalars.size(), 1U);
  EXPECT_EQ(graph.scalars[0].role, Role::epsilon);
  EXPECT_FLOAT_EQ(graph.scalars[0].value, 1e-3F);
}

}  // namespace
}  // namespace dtrain::backend::cuda
