#include <fmt/format.h>

#include <limits>

#include "program.hpp"

// Pooling. The index of a max pool is the first position of the maximum within its window, row by row.
namespace cuda_double {
namespace {

struct Pool {
  cudnnResampleMode_t mode;
  std::int64_t images, height, width, channels, out_height, out_width;
  std::int64_t window[2], stride[2], padding[2];

  bool largest() const { return mode == CUDNN_RESAMPLE_MAXPOOL; }
};

std::int64_t whole(const Content& parameter, cudnnBackendAttributeName_t name, std::size_t axis) {
  const auto fractions = parameter.values<cudnnFraction_t>(name);
  if (fractions.size() != 2 || fractions[axis].denominator != 1) {
    throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "the double pools over two dimensions, by whole numbers"};
  }
  return fractions[axis].numerator;
}

Pool pool_of(const Content& operation, const Content& parameter, const TensorSpec& x, const TensorSpec& y) {
  Pool pool{parameter.value<cudnnResampleMode_t>(CUDNN_ATTR_RESAMPLE_MODE), 0, 0, 0, 0, 0, 0, {}, {}, {}};
  const bool average = pool.mode == CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING ||
                       pool.mode == CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
  if (!pool.largest() && !average)
    throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "the double does not interpolate"};
  const auto edge = parameter.value<cudnnPaddingMode_t>(CUDNN_ATTR_RESAMPLE_PADDING_MODE);
  if (edge != (pool.largest() ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD)) {
    throw Refusal{CUDNN_STATUS_NOT_SUPPORTED,
                  "max pools are padded by minus infinity, average pools by zero"};
  }
  require_shape(x.dims.size() == 4 && y.dims.size() == 4, operation,
                shape_of(x) + " has not four dimensions");
  require_shape(x.dims[0] == y.dims[0] && x.dims[1] == y.dims[1], operation,
                shape_of(x) + " and " + shape_of(y));
  pool.images = x.dims[0];
  pool.channels = x.dims[1];
  pool.height = x.dims[2];
  pool.width = x.dims[3];
  pool.out_height = y.dims[2];
  pool.out_width = y.dims[3];
  for (const std::size_t axis : {0U, 1U}) {
    pool.window[axis] = whole(parameter, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, axis);
    pool.stride[axis] = whole(parameter, CUDNN_ATTR_RESAMPLE_STRIDES, axis);
    pool.padding[axis] = whole(parameter, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, axis);
    const std::int64_t padded =
        x.dims[2 + axis] + pool.padding[axis] + whole(parameter, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, axis);
    require_shape(y.dims[2 + axis] == (padded - pool.window[axis]) / pool.stride[axis] + 1, operation,
                  "size of " + shape_of(y) + " does not follow from " + shape_of(x));
  }
  return pool;
}

// Calls each(output element, window): the window lists its positions within the image as (number, element of
// x).
template <class Each>
void by_windows(const Pool& p, Each each) {
  std::vector<std::pair<std::int64_t, std::size_t>> window;
  std::size_t out = 0;
  for (std::int64_t n = 0; n < p.images; ++n) {
    for (std::int64_t oh = 0; oh < p.out_height; ++oh) {
      for (std::int64_t ow = 0; ow < p.out_width; ++ow) {
        window.clear();
        for (std::int64_t number = 0; number < p.window[0] * p.window[1]; ++number) {
          const std::int64_t h = oh * p.stride[0] - p.padding[0] + number / p.window[1];
          const std::int64_t w = ow * p.stride[1] - p.padding[1] + number % p.window[1];
          if (h < 0 || h >= p.height || w < 0 || w >= p.width) continue;
          window.emplace_back(number,
                              static_cast<std::size_t>(((n * p.height + h) * p.width + w) * p.channels));
        }
        for (std::int64_t c = 0; c < p.channels; ++c, ++out) each(out, static_cast<std::size_t>(c), window);
      }
    }
  }
}

float share(const Pool& pool, std::size_t in_image) {
  const bool padding_counts = pool.mode == CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING;
  return 1.0F / static_cast<float>(padding_counts ? pool.window[0] * pool.window[1]
                                                  : static_cast<std::int64_t>(in_image));
}

void require_plain_scaling(const Content& operation, cudnnBackendAttributeName_t alpha,
                           cudnnBackendAttributeName_t beta) {
  if (operation.real(alpha, 1.0) == 1.0 && operation.real(beta, 0.0) == 0.0) return;
  throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "a resample's alpha has to be 1 and its beta 0"};
}

}  // namespace

Step resample_forward(const Content& operation) {
  const TensorSpec x = tensor_of(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC);
  const TensorSpec y = tensor_of(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC);
  const Pool pool = pool_of(operation, operation.descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC), x, y);
  require_plain_scaling(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA,
                        CUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA);
  Step step{{x}, {y}, {}};
  if (operation.has(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC)) {
    const TensorSpec index = tensor_of(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC);
    require_shape(pool.largest() && index.dims == y.dims, operation, "the index tensor does not fit");
    step.outputs.push_back(index);
  }
  step.run = [outputs = step.outputs, x, pool](Frame& frame) {
    const Values in = frame.load(x);
    Values out(outputs[0].elements());
    Values index(out.size(), 0.0F);
    by_windows(pool, [&](std::size_t at, std::size_t channel, const auto& window) {
      float sum = 0.0F;
      float most = -std::numeric_limits<float>::infinity();
      bool first = true;
      for (const auto& [number, start] : window) {
        const float value = in[start + channel];
        sum += value;
        if (!first && !(value > most) && value == value) continue;
        if (most != most) continue;  // the first that is not a number stays
        most = value;
        index[at] = static_cast<float>(number);
        first = false;
      }
      out[at] = pool.largest() ? most : sum * share(pool, window.size());
    });
    frame.store(outputs[0], out);
    if (outputs.size() > 1) frame.store(outputs[1], index);
  };
  return step;
}

Step resample_backward(const Content& operation) {
  const TensorSpec dx = tensor_of(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC);
  const TensorSpec dy = tensor_of(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC);
  const Pool pool = pool_of(operation, operation.descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC), dx, dy);
  require_plain_scaling(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA,
                        CUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA);
  Step step{{dy}, {dx}, {}};
  if (pool.largest()) {
    if (!operation.has(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC)) {
      throw Refusal{CUDNN_STATUS_BAD_PARAM, "the gradient of a max pool needs the index tensor"};
    }
    step.inputs.push_back(tensor_of(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC));
    require_shape(step.inputs.back().dims == dy.dims, operation, "the index tensor does not fit");
  }
  step.run = [inputs = step.inputs, dx, pool](Frame& frame) {
    const Values gradient = frame.load(inputs[0]);
    const Values index = pool.largest() ? frame.load(inputs[1]) : Values();
    Values out(dx.elements(), 0.0F);
    by_windows(pool, [&](std::size_t at, std::size_t channel, const auto& window) {
      for (const auto& [number, start] : window) {
        if (!pool.largest()) {
          out[start + channel] += gradient[at] * share(pool, window.size());
        } else if (static_cast<std::int64_t>(index[at]) == number) {
          out[start + channel] += gradient[at];
        }
      }
    });
    frame.store(dx, out);
  };
  return step;
}

}  // namespace cuda_double
