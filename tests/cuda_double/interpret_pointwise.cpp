#include <fmt/format.h>

#include <limits>

#include "program.hpp"

namespace cuda_double {
namespace {

// For every element of `whole`, the element of `part` that it is paired with: dimensions of 1 are repeated.
std::vector<std::size_t> pairing(const TensorSpec& whole, const TensorSpec& part) {
  const auto dims = whole.ordered_dims();
  const auto part_dims = part.ordered_dims();
  std::vector<std::int64_t> steps(dims.size());
  std::int64_t step = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    steps[axis] = part_dims[axis] == 1 ? 0 : step;
    step *= part_dims[axis];
  }
  std::vector<std::size_t> index(whole.elements());
  std::vector<std::int64_t> position(dims.size(), 0);
  for (std::size_t& at : index) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) offset += position[axis] * steps[axis];
    at = static_cast<std::size_t>(offset);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      if (++position[axis] < dims[axis]) break;
      position[axis] = 0;
    }
  }
  return index;
}

bool repeats_to(const TensorSpec& part, const TensorSpec& whole) {
  if (part.dims.size() != whole.dims.size()) return false;
  for (std::size_t axis = 0; axis < part.dims.size(); ++axis) {
    if (part.dims[axis] != 1 && part.dims[axis] != whole.dims[axis]) return false;
  }
  return true;
}

struct Clip {
  float lower, upper, slope;

  explicit Clip(const Content& parameter)
      : lower(static_cast<float>(parameter.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0.0))),
        upper(static_cast<float>(
            parameter.real(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, std::numeric_limits<double>::infinity()))),
        slope(static_cast<float>(parameter.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0))) {}

  float forward(float x) const {
    if (x > upper) return upper;
    return x > lower || x != x ? x : lower + slope * (x - lower);  // not a number stays one
  }
  float backward(float dy, float x) const { return x > upper ? 0.0F : x > lower ? dy : slope * dy; }
};

TensorSpec required(const Content& operation, cudnnBackendAttributeName_t name, const char* what) {
  if (operation.has(name)) return tensor_of(operation, name);
  throw Refusal{CUDNN_STATUS_BAD_PARAM, fmt::format("this pointwise operation needs {}", what)};
}

Step unary(const Content& operation, std::function<float(float)> function) {
  const TensorSpec x = required(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, "x");
  const TensorSpec y = required(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, "y");
  require_shape(x.dims == y.dims, operation, shape_of(x) + " and " + shape_of(y));
  const auto alpha = static_cast<float>(operation.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0));
  return {{x}, {y}, [=](Frame& frame) {
            Values values = frame.load(x);
            for (float& value : values) value = function(alpha * value);
            frame.store(y, values);
          }};
}

Step binary(const Content& operation, std::function<float(float, float)> function) {
  const TensorSpec x = required(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, "x");
  const TensorSpec b = required(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, "b");
  const TensorSpec y = required(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, "y");
  require_shape(repeats_to(x, y) && repeats_to(b, y), operation,
                shape_of(x) + " and " + shape_of(b) + " do not give " + shape_of(y));
  const auto alpha1 = static_cast<float>(operation.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0));
  const auto alpha2 = static_cast<float>(operation.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1.0));
  return {{x, b}, {y}, [=, x_of = pairing(y, x), b_of = pairing(y, b)](Frame& frame) {
            const Values left = frame.load(x);
            const Values right = frame.load(b);
            Values values(y.elements());
            for (std::size_t i = 0; i < values.size(); ++i) {
              values[i] = function(alpha1 * left[x_of[i]], alpha2 * right[b_of[i]]);
            }
            frame.store(y, values);
          }};
}

Step relu_backward(const Content& operation, const Clip& clip) {
  const TensorSpec x = required(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, "x");
  const TensorSpec dy = required(operation, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, "dy");
  const TensorSpec dx = required(operation, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, "dx");
  require_shape(x.dims == dy.dims && x.dims == dx.dims, operation, "x, dy and dx are of different shapes");
  return {{x, dy}, {dx}, [=](Frame& frame) {
            const Values input = frame.load(x);
            Values values = frame.load(dy);
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = clip.backward(values[i], input[i]);
            frame.store(dx, values);
          }};
}

}  // namespace

Step pointwise(const Content& operation) {
  const Content& parameter = operation.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = parameter.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const Clip clip(parameter);
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return binary(operation, [](float a, float b) { return a + b; });
    case CUDNN_POINTWISE_SUB:
      return binary(operation, [](float a, float b) { return a - b; });
    case CUDNN_POINTWISE_MUL:
      return binary(operation, [](float a, float b) { return a * b; });
    case CUDNN_POINTWISE_IDENTITY:
      return unary(operation, [](float x) { return x; });
    case CUDNN_POINTWISE_RELU_FWD:
      return unary(operation, [clip](float x) { return clip.forward(x); });
    case CUDNN_POINTWISE_RELU_BWD:
      return relu_backward(operation, clip);
    default:
      throw Refusal{CUDNN_STATUS_NOT_SUPPORTED,
                    fmt::format("the double does not model pointwise mode {}", static_cast<int>(mode))};
  }
}

Step reduction(const Content& operation) {
  const Content& parameter = operation.descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  const auto kind = parameter.value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  if (kind != CUDNN_REDUCE_TENSOR_ADD)
    throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "the double reduces by adding only"};
  const TensorSpec x = tensor_of(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  const TensorSpec y = tensor_of(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  require_shape(repeats_to(y, x), operation, shape_of(x) + " cannot be reduced to " + shape_of(y));
  return {{x}, {y}, [=, y_of = pairing(x, y)](Frame& frame) {
            const Values values = frame.load(x);
            std::vector<double> sums(y.elements(), 0.0);
            for (std::size_t i = 0; i < values.size(); ++i) sums[y_of[i]] += static_cast<double>(values[i]);
            frame.store(y, Values(sums.begin(), sums.end()));
          }};
}

}  // namespace cuda_double
