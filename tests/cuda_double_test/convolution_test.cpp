#include <cmath>

#include "graph_of.hpp"

namespace cuda_double {
namespace {

struct Shape {
  std::int64_t n, c, h, w, k, r, s, padding, stride, dilation;
  std::int64_t oh() const { return (h + 2 * padding - dilation * (r - 1) - 1) / stride + 1; }
  std::int64_t ow() const { return (w + 2 * padding - dilation * (s - 1) - 1) / stride + 1; }
  Dims x() const { return {n, c, h, w}; }
  Dims weights() const { return {k, c, r, s}; }
  Dims y() const { return {n, k, oh(), ow()}; }
};

std::size_t size_of(const Dims& dims) {
  std::size_t product = 1;
  for (const auto dim : dims) product *= static_cast<std::size_t>(dim);
  return product;
}

// Calls each(element of x, of w, of y) for every product of the convolution; channels are closest in all
// three.
template <class Each>
void by_products(const Shape& q, Each each) {
  for (std::int64_t n = 0; n < q.n; ++n)
    for (std::int64_t k = 0; k < q.k; ++k)
      for (std::int64_t oh = 0; oh < q.oh(); ++oh)
        for (std::int64_t ow = 0; ow < q.ow(); ++ow)
          for (std::int64_t c = 0; c < q.c; ++c)
            for (std::int64_t r = 0; r < q.r; ++r)
              for (std::int64_t s = 0; s < q.s; ++s) {
                const auto h = oh * q.stride - q.padding + r * q.dilation;
                const auto w = ow * q.stride - q.padding + s * q.dilation;
                if (h < 0 || h >= q.h || w < 0 || w >= q.w) continue;
                each(static_cast<std::size_t>(((n * q.h + h) * q.w + w) * q.c + c),
                     static_cast<std::size_t>(((k * q.r + r) * q.s + s) * q.c + c),
                     static_cast<std::size_t>(((n * q.oh() + oh) * q.ow() + ow) * q.k + k));
              }
}

Desc parameter(const Shape& q) {
  Desc made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
           std::vector{CUDNN_CROSS_CORRELATION})
      .integers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2})
      .integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {q.padding, q.padding})
      .integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {q.padding, q.padding})
      .integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {q.stride, q.stride})
      .integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, {q.dilation, q.dilation})
      .finalize();
  return made;
}

Desc forward(const Desc& convolution, const Desc& x, const Desc& w, const Desc& y, double alpha = 1.0) {
  Desc made(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution)
      .real(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, alpha)
      .real(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0);
  return made;
}

void expect_near(const std::vector<float>& values, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], tolerance) << "element " << i;
}

class ConvolutionTest : public Runner, public testing::WithParamInterface<Shape> {};

TEST_P(ConvolutionTest, ComputesYDataAndWeightGradients) {
  const Shape q = GetParam();
  const auto x = numbers(size_of(q.x()), 1);
  const auto w = numbers(size_of(q.weights()), 2);
  const auto dy = numbers(size_of(q.y()), 3);
  std::vector<double> y(dy.size(), 0.0);
  std::vector<double> dx(x.size(), 0.0);
  std::vector<double> dw(w.size(), 0.0);
  by_products(q, [&](std::size_t i, std::size_t j, std::size_t o) {
    y[o] += static_cast<double>(x[i]) * static_cast<double>(w[j]);
    dx[i] += static_cast<double>(dy[o]) * static_cast<double>(w[j]);
    dw[j] += static_cast<double>(dy[o]) * static_cast<double>(x[i]);
  });

  const Desc convolution = parameter(q);
  const Desc x_desc = tensor(1, q.x());
  const Desc w_desc = tensor(2, q.weights());
  const Desc y_desc = tensor(3, q.y());
  const DeviceArray<float> x_data(x);
  const DeviceArray<float> w_data(w);
  const DeviceArray<float> dy_data(dy);
  const DeviceArray<float> y_data(dy.size());
  const DeviceArray<float> dx_data(x.size());
  const DeviceArray<float> dw_data(w.size());

  Desc operation = forward(convolution, x_desc, w_desc, y_desc);
  run(operation.finalize(), {{1, x_data.address}, {2, w_data.address}, {3, y_data.address}});
  expect_near(y_data.values(), y, 1e-4);

  Desc data(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  data.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, x_desc)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w_desc)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, y_desc)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution)
      .real(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0)
      .real(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0)
      .finalize();
  run(data, {{1, dx_data.address}, {2, w_data.address}, {3, dy_data.address}});
  expect_near(dx_data.values(), dx, 1e-4);

  Desc filter(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  filter.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x_desc)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, w_desc)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, y_desc)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, convolution)
      .real(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0)
      .real(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0)
      .finalize();
  run(filter, {{1, x_data.address}, {2, dw_data.address}, {3, dy_data.address}});
  expect_near(dw_data.values(), dw, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvolutionTest,
                         testing::Values(Shape{3, 5, 7, 6, 19, 3, 3, 1, 1, 1},
                                         Shape{2, 3, 9, 9, 4, 5, 3, 0, 2, 1},
                                         Shape{1, 4, 8, 8, 6, 3, 3, 2, 1, 2},
                                         Shape{33, 40, 1, 1, 10, 1, 1, 0, 1, 1},
                                         Shape{2, 16, 5, 5, 32, 3, 3, 0, 1, 1}));

class ConvolutionRules : public Runner {
 protected:
  Shape shape_{1, 2, 3, 3, 2, 3, 3, 1, 1, 1};
};

// x * w + bias, clipped at 0, in bfloat16, with channels first in memory.
TEST_F(ConvolutionRules, FusesBiasAndReluThroughVirtualTensors) {
  const Shape q{2, 3, 4, 4, 5, 3, 3, 1, 1, 1};
  const TensorOptions narrow{.type = CUDNN_DATA_BFLOAT16};
  const TensorOptions between{.is_virtual = true};
  const Desc x = tensor(1, q.x(), narrow);
  const Desc w = tensor(2, q.weights(), narrow);
  const Desc bias = tensor(3, {1, 5, 1, 1});
  const Desc y = tensor(4, q.y(), {.channels_first = true});
  const Desc product = tensor(100, q.y(), between);
  const Desc sum = tensor(101, q.y(), between);
  const Desc convolution = parameter(q);
  Desc first = forward(convolution, x, w, product);
  first.finalize();
  const auto pointwise = [](cudnnPointwiseMode_t mode) {
    Desc made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode})
        .type(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
        .finalize();
    return made;
  };
  const Desc adding = pointwise(CUDNN_POINTWISE_ADD);
  const Desc clipping = pointwise(CUDNN_POINTWISE_RELU_FWD);
  Desc add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  add.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, adding)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, product)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, sum)
      .finalize();
  Desc relu(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  relu.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, clipping)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
      .finalize();

  // Multiples of 1/8 are exact in bfloat16: the upper half of a float.
  std::vector<float> x_values = numbers(size_of(q.x()), 4);
  std::vector<float> w_values = numbers(size_of(q.weights()), 5);
  const auto narrowed = [](std::vector<float>& values) {
    std::vector<std::uint16_t> halves;
    for (float& value : values) {
      value = std::round(value * 8.0F) / 8.0F;
      halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    }
    return halves;
  };
  const DeviceArray<std::uint16_t> x_data(narrowed(x_values));
  const DeviceArray<std::uint16_t> w_data(narrowed(w_values));
  const std::vector<float> bias_values{0.5F, -0.5F, 1.0F, 0.0F, -2.0F};
  const DeviceArray<float> bias_data(bias_values);
  const DeviceArray<float> y_data(size_of(q.y()));
  const Desc* const operations[] = {&relu, &add, &first};  // in no order
  run(operations, {{1, x_data.address}, {2, w_data.address}, {3, bias_data.address}, {4, y_data.address}});

  std::vector<double> sums(y_data.size, 0.0);
  by_products(q, [&](std::size_t i, std::size_t j, std::size_t o) {
    sums[o] += static_cast<double>(x_values[i]) * static_cast<double>(w_values[j]);
  });
  std::vector<double> expected(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t k = i % 5;
    const std::size_t pixel = i / 5 % 16;
    expected[(i / 80 * 5 + k) * 16 + pixel] = std::max(0.0, sums[i] + static_cast<double>(bias_values[k]));
  }
  expect_near(y_data.values(), expected, 1e-5);
}

TEST_F(ConvolutionRules, RoundFactorsToTf32OnEnginesWithTensorCores) {
  const Shape q{1, 1, 1, 1, 1, 1, 1, 0, 1, 1};
  const Desc convolution = parameter(q);
  const Desc x = tensor(1, q.x());
  const Desc w = tensor(2, q.weights());
  const Desc y = tensor(3, q.y());
  Desc operation = forward(convolution, x, w, y);
  operation.finalize();
  const DeviceArray<float> x_data(std::vector<float>{1.0F + 0x1p-12F});
  const DeviceArray<float> w_data(std::vector<float>{3.0F});
  const DeviceArray<float> y_data(1);
  const std::vector<Bound> bound{{1, x_data.address}, {2, w_data.address}, {3, y_data.address}};
  run(operation, bound, 1);
  EXPECT_EQ(y_data.values()[0], 3.0F * (1.0F + 0x1p-12F));
  run(operation, bound, 0);
  EXPECT_EQ(y_data.values()[0], 3.0F);
}

TEST_F(ConvolutionRules, RefuseShapesThatDoNotFollow) {
  const Desc convolution = parameter(shape_);
  const Desc x = tensor(1, {1, 2, 3, 3});
  const Desc w = tensor(2, {2, 2, 3, 3});
  const Desc small = tensor(3, {1, 2, 2, 3});
  const Desc channels = tensor(4, {2, 3, 3, 3});
  const Desc y = tensor(5, {1, 2, 3, 3});
  Desc operation = forward(convolution, x, w, small);
  EXPECT_EQ(operation.try_finalize(), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_THAT(last_refusal(), testing::HasSubstr("size of tensor 3 [1, 2, 2, 3] does not follow"));
  EXPECT_EQ(forward(convolution, x, channels, y).try_finalize(), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
}

}  // namespace
}  // namespace cuda_double
