// What cuDNN or the policy refuses, and the limits that the design was built around.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "backend/cuda/cudnn/graph_builder.hpp"
#include "base/error.hpp"
#include "described_device.hpp"

namespace dtrain::backend::cuda {
namespace {

using config::Precision;
using testing::AllOf;
using testing::HasSubstr;

const ConvolutionShape middle{64, 64, 32, 32, 128, 3, 1};

template <class Call>
std::optional<Error> error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// A tensor of a type of its own, channels closest.
Descriptor tensor(std::int64_t uid, const Dims& dims, cudnnDataType_t type) {
  const Dims strides{dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]};
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
      .finalize();
  return descriptor;
}

Descriptor convolution() {
  const Dims ones{1, 1};
  Descriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, ones)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, ones)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, ones)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, ones)
      .finalize();
  return descriptor;
}

OperationGraph weight_gradient(cudnnDataType_t of_weights, std::int64_t weight_channels = 64) {
  const Descriptor x = tensor(1, {64, 64, 32, 32}, CUDNN_DATA_BFLOAT16);
  const Descriptor dy = tensor(2, {64, 128, 32, 32}, CUDNN_DATA_BFLOAT16);
  const Descriptor dw = tensor(3, {128, weight_channels, 3, 3}, of_weights);
  const Descriptor with = convolution();
  Descriptor op(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, with)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0);
  GraphBuilder builder(Element::bf16);
  builder.operation(std::move(op));
  return builder.finish("weight gradient by hand", nullptr);
}

TEST(Refusals, ChannelsThatDoNotFitAreRefusedWhenTheGraphIsMade) {
  EXPECT_NO_THROW(weight_gradient(CUDNN_DATA_BFLOAT16));
  const auto error = error_of([] { weight_gradient(CUDNN_DATA_BFLOAT16, 63); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->category(), ErrorCategory::run);
  EXPECT_THAT(error->what(), HasSubstr("cudnnBackendFinalize"));
}

TEST(Refusals, AGpuWithoutBf16NamesGraphPrecisionDeviceAndWhatIsThere) {
  const Planner planner = planner_for("t4");
  const OperationGraph graph = planner.graph(ConvolutionForward{middle, Element::bf16, false, false});
  const auto error = error_of([&] { planner.candidates(graph, policy_of(Precision::bf16)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->category(), ErrorCategory::environment);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("convolution forward n64 c64"), HasSubstr(" in bf16 on "),
                                   HasSubstr("Tesla T4 (compute capability 7.5)")));
  EXPECT_THAT(error->advice(), HasSubstr("--precision fp32"));
}

TEST(Refusals, TheSameGpuHasFp16) {
  const Planner planner = planner_for("t4");
  const OperationGraph graph = planner.graph(ConvolutionForward{middle, Element::f16, false, false});
  EXPECT_FALSE(planner.candidates(graph, policy_of(Precision::fp16)).empty());
}

TEST(Refusals, TrueFp32LeavesAFewOfWhatTf32Has) {
  const Planner planner = planner_for("h200");
  const OperationGraph graph = planner.graph(ConvolutionForward{middle, Element::f32, false, false});
  const auto few = planner.candidates(graph, policy_of(Precision::fp32));
  const auto many = planner.candidates(graph, policy_of(Precision::tf32));
  EXPECT_TRUE(many.front().has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  EXPECT_LT(few.size(), many.size());
  for (const Candidate& candidate : few) EXPECT_FALSE(candidate.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

TEST(Refusals, DeterminismLeavesOutWhatAddsInAnyOrder) {
  const Planner planner = planner_for("h200");
  Policy policy = policy_of(Precision::fp32);
  const OperationGraph graph = planner.graph(ConvolutionWeightGradient{middle, Element::f32});
  const auto all = planner.candidates(graph, policy);
  policy.deterministic = true;
  const auto fixed = planner.candidates(graph, policy);
  EXPECT_LT(fixed.size(), all.size());
  for (const Candidate& candidate : fixed) EXPECT_FALSE(candidate.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
}

TEST(Refusals, NoPlanTakesMoreWorkspaceThanAllowed) {
  const Planner planner = planner_for("h200");
  Policy policy = policy_of(Precision::fp32);
  const OperationGraph graph = planner.graph(ConvolutionForward{middle, Element::f32, false, false});
  const auto first = planner.candidates(graph, policy).front();
  const std::size_t wanted = planner.try_plan(first, policy).plan.value().workspace_bytes();
  ASSERT_GT(wanted, 0U);
  policy.workspace_limit = wanted - 1;
  EXPECT_THAT(planner.try_plan(first, policy).refusal, HasSubstr("of workspace, more than"));
  EXPECT_LT(first_plan(planner, graph, policy).plan.value().workspace_bytes(), wanted);
}

TEST(Refusals, APropertyFileMustBeOne) {
  const auto error = error_of([] { Planner::for_described_device("no JSON"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->category(), ErrorCategory::data);
}

// Limits of cuDNN that decided the design. Where a later version has lifted one, the test says so and is
// skipped.

TEST(DesignLimits, WeightGradientsOf16BitTensorsCannotBeFp32) {
  const Planner planner = planner_for("h200");
  const Policy policy = policy_of(Precision::bf16);
  EXPECT_FALSE(planner.candidates(weight_gradient(CUDNN_DATA_BFLOAT16), policy).empty());
  const OperationGraph graph = weight_gradient(CUDNN_DATA_FLOAT);
  if (!error_of([&] { planner.candidates(graph, policy); })) {
    GTEST_SKIP()
        << "this cuDNN writes fp32 weight gradients from 16-bit tensors: casting them is no longer needed";
  }
}

TEST(DesignLimits, NormalisingWithRunningStatisticsIsNoOperationOfItsOwn) {
  const Planner planner = planner_for("h200");
  const auto graph = [] {
    GraphBuilder builder(Element::bf16);
    Descriptor op(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_BATCH_NORM)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_INFERENCE)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, builder.tensor(Role::x, {64, 128, 32, 32}))
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, builder.vector(Role::mean, 128))
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, builder.vector(Role::inverse_deviation, 128))
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, builder.vector(Role::gamma, 128))
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, builder.vector(Role::beta, 128))
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, builder.tensor(Role::y, {64, 128, 32, 32}));
    builder.operation(std::move(op));
    return builder.finish("batch norm inference by hand", nullptr);
  };
  const OperationGraph inference = graph();
  if (!error_of([&] { planner.candidates(inference, policy_of(Precision::bf16)); })) {
    GTEST_SKIP() << "this cuDNN has batch norm inference: a kernel of our own is no longer needed";
  }
}

TEST(DesignLimits, SumsOverABatchInFixedOrderDoNotCompile) {
  const Planner planner = planner_for("h200");
  const auto graph = [](bool in_order) {
    Descriptor sum(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    const cudnnReduceTensorOp_t add = CUDNN_REDUCE_TENSOR_ADD;
    DTRAIN_CUDA(cudnnBackendSetAttribute(sum.raw(), CUDNN_ATTR_REDUCTION_OPERATOR,
                                         CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &add));
    sum.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, in_order);
    GraphBuilder builder(Element::bf16);
    Descriptor op(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, builder.parameter(sum))
        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, builder.tensor(Role::dy, {64, 32, 30, 30}))
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, builder.vector(Role::bias, 32));
    builder.operation(std::move(op));
    return builder.finish("bias gradient by hand", nullptr);
  };
  const Policy policy = policy_of(Precision::bf16);
  EXPECT_TRUE(first_plan(planner, graph(false), policy).plan);
  if (first_plan(planner, graph(true), policy).plan) {
    GTEST_SKIP() << "this cuDNN adds in a fixed order: bias gradients could be its graphs";
  }
}

}  // namespace
}  // namespace dtrain::backend::cuda
