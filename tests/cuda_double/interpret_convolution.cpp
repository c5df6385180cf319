#include <fmt/format.h>

#include "dense.hpp"
#include "program.hpp"

namespace cuda_double {
namespace {

struct Names {
  cudnnBackendAttributeName_t parameter, x, w, y, alpha, beta;
};

constexpr Names forward_names{
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Names data_names{
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Names weight_names{
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

// x, w and y of one convolution, whichever of them is computed.
struct Parts {
  TensorSpec x, w, y;
  double alpha, beta;
  dense::Convolution shape;
};

std::int64_t out_size(const Content& parameter, std::int64_t in, std::int64_t kernel, std::size_t axis) {
  const auto at = [&](cudnnBackendAttributeName_t name) {
    return parameter.values<std::int64_t>(name)[axis];
  };
  const std::int64_t reach = at(CUDNN_ATTR_CONVOLUTION_DILATIONS) * (kernel - 1) + 1;
  const std::int64_t padded =
      in + at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) + at(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  return (padded - reach) / at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES) + 1;
}

Parts parts_of(const Content& operation, const Names& names) {
  const Content& parameter = operation.descriptor(names.parameter);
  Parts parts{tensor_of(operation, names.x),   tensor_of(operation, names.w),
              tensor_of(operation, names.y),   operation.real(names.alpha, 1.0),
              operation.real(names.beta, 0.0), {}};
  const auto& [x, w, y, alpha, beta, shape] = parts;
  for (const TensorSpec* tensor : {&x, &w, &y}) {
    require_shape(tensor->dims.size() == 4, operation, shape_of(*tensor) + " has not four dimensions");
  }
  if (w.dims[1] != x.dims[1] && x.dims[1] % w.dims[1] == 0) {
    throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "the double does not model convolutions in groups"};
  }
  require_shape(w.dims[1] == x.dims[1], operation, "channels of " + shape_of(x) + " and " + shape_of(w));
  require_shape(y.dims[0] == x.dims[0] && y.dims[1] == w.dims[0], operation,
                "images or channels of " + shape_of(y) + " do not follow from " + shape_of(x));
  for (const std::size_t axis : {0U, 1U}) {
    require_shape(y.dims[2 + axis] == out_size(parameter, x.dims[2 + axis], w.dims[2 + axis], axis),
                  operation, "size of " + shape_of(y) + " does not follow from " + shape_of(x));
  }
  const auto padding = parameter.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto stride = parameter.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto dilation = parameter.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  parts.shape = {x.dims[0],
                 x.dims[2],
                 x.dims[3],
                 x.dims[1],
                 w.dims[0],
                 w.dims[2],
                 w.dims[3],
                 y.dims[2],
                 y.dims[3],
                 {padding[0], padding[1]},
                 {stride[0], stride[1]},
                 {dilation[0], dilation[1]}};
  return parts;
}

// result = alpha * computed + beta * result
void blend(Frame& frame, const TensorSpec& tensor, Values computed, double alpha, double beta) {
  if (alpha != 1.0) {
    for (float& value : computed) value *= static_cast<float>(alpha);
  }
  if (beta != 0.0) {
    const Values before = frame.load(tensor);
    for (std::size_t i = 0; i < computed.size(); ++i) computed[i] += static_cast<float>(beta) * before[i];
  }
  frame.store(tensor, computed);
}

}  // namespace

Step convolution_forward(const Content& operation) {
  const Parts parts = parts_of(operation, forward_names);
  return {{parts.x, parts.w}, {parts.y}, [parts](Frame& frame) {
            const Values x = frame.load_factor(parts.x);
            const Values w = frame.load_factor(parts.w);
            Values y(parts.y.elements());
            dense::convolve(parts.shape, x.data(), w.data(), y.data());
            blend(frame, parts.y, std::move(y), parts.alpha, parts.beta);
          }};
}

Step convolution_data_gradient(const Content& operation) {
  const Parts parts = parts_of(operation, data_names);
  return {{parts.y, parts.w}, {parts.x}, [parts](Frame& frame) {
            const Values dy = frame.load_factor(parts.y);
            const Values w = frame.load_factor(parts.w);
            Values dx(parts.x.elements());
            dense::convolve_data_gradient(parts.shape, dy.data(), w.data(), dx.data());
            blend(frame, parts.x, std::move(dx), parts.alpha, parts.beta);
          }};
}

Step convolution_weight_gradient(const Content& operation) {
  const Parts parts = parts_of(operation, weight_names);
  return {{parts.x, parts.y}, {parts.w}, [parts](Frame& frame) {
            const Values x = frame.load_factor(parts.x);
            const Values dy = frame.load_factor(parts.y);
            Values dw(parts.w.elements());
            dense::convolve_weight_gradient(parts.shape, x.data(), dy.data(), dw.data());
            blend(frame, parts.w, std::move(dw), parts.alpha, parts.beta);
          }};
}

}  // namespace cuda_double
