// Convolutions and dense layers.
#include "backend/cuda/cudnn/families.hpp"

namespace dtrain::backend::cuda {

namespace {

Dims input(const ConvolutionShape& s) { return {s.batch, s.in_channels, s.in_height, s.in_width}; }
Dims output(const ConvolutionShape& s) { return {s.batch, s.out_channels, s.out_height(), s.out_width()}; }
Dims weights(const ConvolutionShape& s) { return {s.out_channels, s.in_channels, s.kernel, s.kernel}; }

// A dense layer is a 1 x 1 convolution over an image of one pixel.
ConvolutionShape as_convolution(const DenseShape& s) { return {s.batch, s.inputs, 1, 1, s.outputs, 1, 0}; }

const Descriptor& convolution(GraphBuilder& builder, const ConvolutionShape& shape) {
  const Dims padding{shape.padding, shape.padding};
  const Dims ones{1, 1};
  Descriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, ones)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, ones);
  return builder.parameter(descriptor);
}

OperationGraph forward(const ConvolutionForward& spec, const std::string& signature, cudnnHandle_t handle) {
  GraphBuilder builder(spec.element);
  const Dims out = output(spec.shape);
  const Descriptor& x = builder.tensor(Role::x, input(spec.shape));
  const Descriptor& w = builder.tensor(Role::w, weights(spec.shape));
  const Descriptor& y = builder.tensor(Role::y, out);
  const Descriptor& product = spec.bias || spec.relu ? builder.intermediate(out) : y;

  Descriptor op(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, product)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution(builder, spec.shape))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0);
  builder.operation(std::move(op));

  const Descriptor* sum = &product;
  if (spec.bias) {
    const Descriptor& bias = builder.tensor(Role::bias, {1, spec.shape.out_channels, 1, 1});
    sum = spec.relu ? &builder.intermediate(out) : &y;
    builder.add(product, bias, *sum);
  }
  if (spec.relu) builder.relu(*sum, y);
  return builder.finish(signature, handle);
}

OperationGraph data_gradient(const ConvolutionShape& shape, Element element, const std::string& signature,
                             cudnnHandle_t handle) {
  GraphBuilder builder(element);
  Descriptor op(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, builder.tensor(Role::dx, input(shape)))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, builder.tensor(Role::w, weights(shape)))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, builder.tensor(Role::dy, output(shape)))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution(builder, shape))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0);
  builder.operation(std::move(op));
  return builder.finish(signature, handle);
}

OperationGraph weight_gradient(const ConvolutionShape& shape, Element element, const std::string& signature,
                               cudnnHandle_t handle) {
  GraphBuilder builder(element);
  Descriptor op(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, builder.tensor(Role::x, input(shape)))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, builder.tensor(Role::dw, weights(shape)))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, builder.tensor(Role::dy, output(shape)))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, convolution(builder, shape))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0);
  builder.operation(std::move(op));
  return builder.finish(signature, handle);
}

}  // namespace

OperationGraph build(const ConvolutionForward& spec, const std::string& signature, cudnnHandle_t handle) {
  return forward(spec, signature, handle);
}

OperationGraph build(const ConvolutionDataGradient& spec, const std::string& signature,
                     cudnnHandle_t handle) {
  return data_gradient(spec.shape, spec.element, signature, handle);
}

OperationGraph build(const ConvolutionWeightGradient& spec, const std::string& signature,
                     cudnnHandle_t handle) {
  return weight_gradient(spec.shape, spec.element, signature, handle);
}

OperationGraph build(const DenseForward& spec, const std::string& signature, cudnnHandle_t handle) {
  return forward({as_convolution(spec.shape), spec.element, spec.bias, spec.relu}, signature, handle);
}

OperationGraph build(const DenseDataGradient& spec, const std::string& signature, cudnnHandle_t handle) {
  return data_gradient(as_convolution(spec.shape), spec.element, signature, handle);
}

OperationGraph build(const DenseWeightGradient& spec, const std::string& signature, cudnnHandle_t handle) {
  return weight_gradient(as_convolution(spec.shape), spec.element, signature, handle);
}

}  // namespace dtrain::backend::cuda
