#include <cmath>

#include "graph_of.hpp"
#include "kernels/max_pool.hpp"

namespace cuda_double {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

using Operations = Runner;

Desc pointwise(cudnnPointwiseMode_t mode) {
  Desc made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode})
      .type(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  return made;
}

TEST_F(Operations, AddAndMultiplyWithFactorsAndRepeatedValues) {
  const Desc x = tensor(1, {2, 2, 1, 2});
  const Desc b = tensor(2, {1, 2, 1, 1});
  const Desc y = tensor(3, {2, 2, 1, 2});
  const DeviceArray<float> x_data(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  const DeviceArray<float> b_data(std::vector<float>{10, 20});
  const DeviceArray<float> y_data(8);
  for (const auto mode : {CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_MUL}) {
    Desc parameter = pointwise(mode);
    parameter.finalize();
    Desc operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parameter)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, std::vector{2.0F})
        .finalize();
    run(operation, {{1, x_data.address}, {2, b_data.address}, {3, y_data.address}});
    if (mode == CUDNN_POINTWISE_ADD) {
      EXPECT_THAT(y_data.values(), ElementsAre(12, 24, 16, 28, 20, 32, 24, 36));
    } else {
      EXPECT_THAT(y_data.values(), ElementsAre(20, 80, 60, 160, 100, 240, 140, 320));
    }
  }
}

TEST_F(Operations, ClipForwardAndBackward) {
  const Desc x = tensor(1, {1, 5, 1, 1});
  const Desc y = tensor(2, {1, 5, 1, 1});
  const Desc dx = tensor(3, {1, 5, 1, 1});
  const DeviceArray<float> x_data(std::vector<float>{-2, 0, 1, 7, -0.5F});
  const DeviceArray<float> y_data(5);
  Desc clip = pointwise(CUDNN_POINTWISE_RELU_FWD);
  clip.real(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, 6.0).finalize();
  Desc forward(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  forward.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, clip)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
      .finalize();
  run(forward, {{1, x_data.address}, {2, y_data.address}});
  EXPECT_THAT(y_data.values(), ElementsAre(0, 0, 1, 6, 0));

  Desc unclip = pointwise(CUDNN_POINTWISE_RELU_BWD);
  unclip.finalize();
  Desc backward(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  backward.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, unclip)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, y)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx)
      .finalize();
  const DeviceArray<float> dy_data(std::vector<float>{1, 2, 3, 4, 5});
  const DeviceArray<float> dx_data(5);
  run(backward, {{1, x_data.address}, {2, dy_data.address}, {3, dx_data.address}});
  EXPECT_THAT(dx_data.values(), ElementsAre(0, 0, 3, 4, 0));
}

TEST_F(Operations, ConvertBetweenPrecisions) {
  const std::vector<float> values{0.0F,      1.0F,    -2.5F,    65504.0F, 65520.0F,    1e-8F,
                                  0x1.p-24F, 1.0009F, 0.33333F, 1e30F,    -0x1.8p-25F, 2049.0F};
  const auto count = static_cast<std::int64_t>(values.size());
  Desc copy = pointwise(CUDNN_POINTWISE_IDENTITY);
  copy.finalize();
  const DeviceArray<float> data(values);
  const auto through = [&](cudnnDataType_t type) {
    const Desc wide = tensor(1, {1, count, 1, 1});
    const Desc narrow = tensor(2, {1, count, 1, 1}, {.type = type});
    const Desc back = tensor(3, {1, count, 1, 1});
    Desc first(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    first.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, copy)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, wide)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, narrow)
        .finalize();
    Desc second(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    second.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, copy)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, narrow)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, back)
        .finalize();
    const DeviceArray<std::uint16_t> between(values.size());
    const DeviceArray<float> out(values.size());
    run(first, {{1, data.address}, {2, between.address}});
    run(second, {{2, between.address}, {3, out.address}});
    return out.values();
  };
  constexpr float infinite = std::numeric_limits<float>::infinity();
  EXPECT_THAT(through(CUDNN_DATA_HALF),
              ElementsAre(0.0F, 1.0F, -2.5F, 65504.0F, infinite, 0.0F, 0x1.p-24F, 1.0009765625F,
                          0.333251953125F, infinite, -0x1.p-24F, 2048.0F));
  EXPECT_THAT(through(CUDNN_DATA_BFLOAT16),
              ElementsAre(0.0F, 1.0F, -2.5F, 65536.0F, 65536.0F, 0x1.58p-27F, 0x1.p-24F, 1.0F, 0.333984375F,
                          0x1.94p99F, -0x1.8p-25F, 2048.0F));
}

TEST_F(Operations, ReduceByAdding) {
  Desc sum(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  sum.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
          std::vector{CUDNN_REDUCE_TENSOR_ADD})
      .type(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .finalize();
  const Desc x = tensor(1, {2, 3, 1, 2});
  const Desc y = tensor(2, {1, 3, 1, 1});
  Desc operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, sum)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
      .finalize();
  const DeviceArray<float> x_data(std::vector<float>{1, 10, 100, 2, 20, 200, 3, 30, 300, 4, 40, 400});
  const DeviceArray<float> y_data(3);
  run(operation, {{1, x_data.address}, {2, y_data.address}});
  EXPECT_THAT(y_data.values(), ElementsAre(10, 100, 1000));
}

TEST_F(Operations, MultiplyMatricesInBatches) {
  Desc parameter(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  parameter.type(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
  const Desc a = tensor(1, {2, 2, 3});
  const Desc b = tensor(2, {1, 3, 2});
  const Desc c = tensor(3, {2, 2, 2});
  Desc operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, parameter)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c)
      .finalize();
  const DeviceArray<float> a_data(std::vector<float>{1, 2, 3, 4, 5, 6, -1, 0, 1, 2, 2, 2});
  const DeviceArray<float> b_data(std::vector<float>{1, 2, 3, 4, 5, 6});
  const DeviceArray<float> c_data(8);
  run(operation, {{1, a_data.address}, {2, b_data.address}, {3, c_data.address}});
  EXPECT_THAT(c_data.values(), ElementsAre(22, 28, 49, 64, 4, 4, 18, 24));
}

Desc max_pool(std::int64_t size, std::int64_t stride, std::int64_t padding) {
  const auto twice = [](std::int64_t value) { return std::vector<cudnnFraction_t>(2, {value, 1}); };
  Desc made(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  made.set(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, std::vector{CUDNN_RESAMPLE_MAXPOOL})
      .type(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, std::vector{CUDNN_NEG_INF_PAD})
      .integers(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, {2})
      .set(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_FRACTION, twice(size))
      .set(CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_FRACTION, twice(stride))
      .set(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_FRACTION, twice(padding))
      .set(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_FRACTION, twice(padding))
      .finalize();
  return made;
}

Desc pool_forward(const Desc& pool, const Desc& x, const Desc& y, const Desc& index) {
  Desc made(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, pool)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, index)
      .finalize();
  return made;
}

TEST_F(Operations, PoolLikeTheKernelsReference) {
  const dtrain::kernels::PoolShape shape{.outer = 2, .height = 5, .width = 6, .inner = 3, .size = 2};
  const auto x = numbers(2 * 5 * 6 * 3, 6);
  const auto dy = numbers(2 * 2 * 3 * 3, 7);
  std::vector<float> y(dy.size());
  std::vector<std::uint8_t> winner(dy.size());
  std::vector<float> dx(x.size());
  dtrain::kernels::max_pool_forward_reference(shape, false, x.data(), y.data(), winner.data());
  dtrain::kernels::max_pool_backward_reference(shape, dy.data(), winner.data(), dx.data());

  const Desc pool = max_pool(2, 2, 0);
  const Desc x_desc = tensor(1, {2, 3, 5, 6});
  const Desc y_desc = tensor(2, {2, 3, 2, 3});
  const Desc index_desc = tensor(3, {2, 3, 2, 3}, {.type = CUDNN_DATA_INT8});
  const Desc forward = pool_forward(pool, x_desc, y_desc, index_desc);
  const DeviceArray<float> x_data(x);
  const DeviceArray<float> y_data(y.size());
  const DeviceArray<std::uint8_t> index_data(y.size());
  run(forward, {{1, x_data.address}, {2, y_data.address}, {3, index_data.address}});
  EXPECT_EQ(y_data.values(), y);
  EXPECT_EQ(index_data.values(), winner);

  Desc backward(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  backward.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, pool)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, x_desc)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, y_desc)
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, index_desc)
      .finalize();
  const DeviceArray<float> dy_data(dy);
  const DeviceArray<float> dx_data(x.size());
  run(backward, {{1, dx_data.address}, {2, dy_data.address}, {3, index_data.address}});
  EXPECT_EQ(dx_data.values(), dx);
}

TEST_F(Operations, PoolOverlappingPaddedWindows) {
  const Desc pool = max_pool(3, 1, 1);
  const Desc x = tensor(1, {1, 1, 2, 3});
  const Desc y = tensor(2, {1, 1, 2, 3});
  const Desc index = tensor(3, {1, 1, 2, 3}, {.type = CUDNN_DATA_INT8});
  const Desc forward = pool_forward(pool, x, y, index);
  const DeviceArray<float> x_data(std::vector<float>{-1, -5, -2, -4, -1, -3});
  const DeviceArray<float> y_data(6);
  const DeviceArray<std::int8_t> index_data(6);
  run(forward, {{1, x_data.address}, {2, y_data.address}, {3, index_data.address}});
  EXPECT_THAT(y_data.values(), ElementsAre(-1, -1, -1, -1, -1, -1));
  EXPECT_THAT(index_data.values(), ElementsAre(4, 3, 6, 1, 0, 3));
}

struct BatchNorm {
  std::vector<float> x = numbers(3 * 2 * 2 * 2, 8);
  std::vector<float> gamma{1.5F, -0.5F};
  std::vector<float> beta{0.25F, 2.0F};
  double epsilon = 1e-3;
  double mean[2] = {0, 0};
  double variance[2] = {0, 0};
  BatchNorm() {
    for (std::size_t i = 0; i < 24; ++i) mean[i % 2] += static_cast<double>(x[i]) / 12.0;
    for (std::size_t i = 0; i < 24; ++i)
      variance[i % 2] += std::pow(static_cast<double>(x[i]) - mean[i % 2], 2) / 12.0;
  }
  double inverse(std::size_t c) const { return 1.0 / std::sqrt(variance[c] + epsilon); }
  double normal(std::size_t i) const { return (static_cast<double>(x[i]) - mean[i % 2]) * inverse(i % 2); }
};

TEST_F(Operations, NormaliseInTrainingAndTrackStatistics) {
  const BatchNorm b;
  const Dims whole{3, 2, 2, 2};
  const Dims channels{1, 2, 1, 1};
  const Desc x = tensor(1, whole);
  const Desc scale = tensor(2, channels);
  const Desc bias = tensor(3, channels);
  const Desc epsilon = tensor(4, {1, 1, 1, 1}, {.by_value = true});
  const Desc factor = tensor(5, {1, 1, 1, 1}, {.by_value = true});
  const Desc y = tensor(6, whole);
  const Desc mean = tensor(7, channels);
  const Desc inverse = tensor(8, channels);
  const Desc running_mean = tensor(9, channels);
  const Desc running_variance = tensor(10, channels);
  const Desc next_mean = tensor(11, channels);
  const Desc next_variance = tensor(12, channels);
  Desc operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, std::vector{CUDNN_BATCH_NORM})
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE,
           std::vector{CUDNN_NORM_FWD_TRAINING})
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, scale)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, bias)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, epsilon)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, factor)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, running_mean)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, running_variance)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, next_mean)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, next_variance)
      .finalize();

  const DeviceArray<float> x_data(b.x);
  const DeviceArray<float> scale_data(b.gamma);
  const DeviceArray<float> bias_data(b.beta);
  const DeviceArray<float> y_data(24);
  const DeviceArray<float> mean_data(2);
  const DeviceArray<float> inverse_data(2);
  const DeviceArray<float> running_mean_data(std::vector<float>{10, 20});  // updated in place
  const DeviceArray<float> running_variance_data(std::vector<float>{1, 2});
  auto eps = static_cast<float>(b.epsilon);
  float momentum = 0.1F;
  run(operation, {{1, x_data.address},
                  {2, scale_data.address},
                  {3, bias_data.address},
                  {4, &eps},
                  {5, &momentum},
                  {6, y_data.address},
                  {7, mean_data.address},
                  {8, inverse_data.address},
                  {9, running_mean_data.address},
                  {10, running_variance_data.address},
                  {11, running_mean_data.address},
                  {12, running_variance_data.address}});
  const auto out = y_data.values();
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_NEAR(out[i],
                static_cast<double>(b.gamma[i % 2]) * b.normal(i) + static_cast<double>(b.beta[i % 2]), 1e-5);
  }
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_NEAR(mean_data.values()[c], b.mean[c], 1e-6);
    EXPECT_NEAR(inverse_data.values()[c], b.inverse(c), 1e-5);
    EXPECT_NEAR(running_mean_data.values()[c], 0.9 * (c == 0 ? 10 : 20) + 0.1 * b.mean[c], 1e-5);
    EXPECT_NEAR(running_variance_data.values()[c], 0.9 * (c == 0 ? 1 : 2) + 0.1 * b.variance[c] * 12 / 11,
                1e-6);
  }
}

TEST_F(Operations, NormaliseBackward) {
  const BatchNorm b;
  const Dims whole{3, 2, 2, 2};
  const Dims channels{1, 2, 1, 1};
  const auto dy = numbers(24, 9);
  const Desc x = tensor(1, whole);
  const Desc dy_desc = tensor(2, whole);
  const Desc dx = tensor(3, whole);
  const Desc mean = tensor(4, channels);
  const Desc inverse = tensor(5, channels);
  const Desc scale = tensor(6, channels);
  const Desc dscale = tensor(7, channels);
  const Desc dbias = tensor(8, channels);
  Desc operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, std::vector{CUDNN_BATCH_NORM})
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dy_desc)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, inverse)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, scale)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dscale)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dbias)
      .finalize();
  const DeviceArray<float> x_data(b.x);
  const DeviceArray<float> dy_data(dy);
  const DeviceArray<float> dx_data(24);
  const DeviceArray<float> mean_data(
      std::vector<float>{static_cast<float>(b.mean[0]), static_cast<float>(b.mean[1])});
  const DeviceArray<float> inverse_data(
      std::vector<float>{static_cast<float>(b.inverse(0)), static_cast<float>(b.inverse(1))});
  const DeviceArray<float> scale_data(b.gamma);
  const DeviceArray<float> dscale_data(2);
  const DeviceArray<float> dbias_data(2);
  run(operation, {{1, x_data.address},
                  {2, dy_data.address},
                  {3, dx_data.address},
                  {4, mean_data.address},
                  {5, inverse_data.address},
                  {6, scale_data.address},
                  {7, dscale_data.address},
                  {8, dbias_data.address}});
  // The loss sum(dy * y) by central differences: the batch's mean and variance move with x.
  const auto loss = [&](std::size_t moved, double by) {
    double means[2] = {0, 0};
    double variances[2] = {0, 0};
    std::vector<double> values(b.x.begin(), b.x.end());
    if (moved < 24) values[moved] += by;
    for (std::size_t i = 0; i < 24; ++i) means[i % 2] += values[i] / 12.0;
    for (std::size_t i = 0; i < 24; ++i) variances[i % 2] += std::pow(values[i] - means[i % 2], 2) / 12.0;
    double sum = 0;
    for (std::size_t i = 0; i < 24; ++i) {
      const double normal = (values[i] - means[i % 2]) / std::sqrt(variances[i % 2] + b.epsilon);
      sum += static_cast<double>(dy[i]) * static_cast<double>(b.gamma[i % 2]) * normal;
    }
    return sum;
  };
  const auto gradient = dx_data.values();
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_NEAR(gradient[i], (loss(i, 1e-5) - loss(i, -1e-5)) / 2e-5, 1e-4);
  for (std::size_t c = 0; c < 2; ++c) {
    double sum = 0;
    double product = 0;
    for (std::size_t i = c; i < 24; i += 2) {
      sum += static_cast<double>(dy[i]);
      product += static_cast<double>(dy[i]) * b.normal(i);
    }
    EXPECT_NEAR(dbias_data.values()[c], sum, 1e-5);
    EXPECT_NEAR(dscale_data.values()[c], product, 1e-4);
  }
}

}  // namespace
}  // namespace cuda_double
