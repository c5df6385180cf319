#include <cmath>

#include "dense.hpp"
#include "program.hpp"

// Batch norm over images, height and width. What is saved is 1 / sqrt(biased variance + epsilon); the running
// variance follows the unbiased one, as in cuDNN.
namespace cuda_double {
namespace {

void require_batch_norm(const Content& operation, cudnnBackendAttributeName_t mode) {
  if (operation.value<cudnnBackendNormMode_t>(mode) == CUDNN_BATCH_NORM) return;
  throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "the double models batch norm only"};
}

TensorSpec by_channel(const Content& operation, cudnnBackendAttributeName_t name, const TensorSpec& x) {
  TensorSpec tensor = tensor_of(operation, name);
  require_shape(tensor.dims == std::vector<std::int64_t>{1, x.dims[1], 1, 1}, operation,
                shape_of(tensor) + " is not one value a channel of " + shape_of(x));
  return tensor;
}

TensorSpec scalar(const Content& operation, cudnnBackendAttributeName_t name) {
  TensorSpec tensor = tensor_of(operation, name);
  require_shape(tensor.elements() == 1, operation, shape_of(tensor) + " is not one value");
  return tensor;
}

TensorSpec activation(const Content& operation, cudnnBackendAttributeName_t name) {
  TensorSpec tensor = tensor_of(operation, name);
  require_shape(tensor.dims.size() == 4, operation, shape_of(tensor) + " has not four dimensions");
  return tensor;
}

void require(const Content& operation, std::initializer_list<cudnnBackendAttributeName_t> names,
             const char* what) {
  for (const auto name : names) {
    if (!operation.has(name))
      throw Refusal{CUDNN_STATUS_BAD_PARAM, std::string("batch norm: missing ") + what};
  }
}

std::size_t rows_of(const TensorSpec& x) { return x.elements() / static_cast<std::size_t>(x.dims[1]); }

struct Running {
  TensorSpec factor, mean, variance, next_mean, next_variance;
};

std::vector<Running> running_of(const Content& operation, const TensorSpec& x) {
  constexpr cudnnBackendAttributeName_t names[] = {CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC,
                                                   CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
                                                   CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
                                                   CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
                                                   CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC};
  std::size_t given = 0;
  for (const auto name : names) given += operation.has(name) ? 1 : 0;
  if (given == 0) return {};
  if (given != std::size(names)) {
    throw Refusal{CUDNN_STATUS_BAD_PARAM,
                  "batch norm: running statistics and their factor come together or not at all"};
  }
  return {{scalar(operation, names[0]), by_channel(operation, names[1], x),
           by_channel(operation, names[2], x), by_channel(operation, names[3], x),
           by_channel(operation, names[4], x)}};
}

void update(Frame& frame, const Running& running, const std::vector<double>& mean,
            const std::vector<double>& variance, std::size_t rows) {
  const auto factor = static_cast<double>(frame.scalar(running.factor));
  const double unbiased = rows > 1 ? static_cast<double>(rows) / static_cast<double>(rows - 1) : 1.0;
  Values means = frame.load(running.mean);
  Values variances = frame.load(running.variance);
  for (std::size_t c = 0; c < mean.size(); ++c) {
    means[c] = static_cast<float>((1.0 - factor) * static_cast<double>(means[c]) + factor * mean[c]);
    variances[c] = static_cast<float>((1.0 - factor) * static_cast<double>(variances[c]) +
                                      factor * unbiased * variance[c]);
  }
  frame.store(running.next_mean, means);
  frame.store(running.next_variance, variances);
}

Step inference(const Content& operation, const TensorSpec& x, const TensorSpec& scale, const TensorSpec& bias,
               const TensorSpec& y) {
  require(operation,
          {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC},
          "mean or inverse deviation, which inference reads");
  const TensorSpec mean = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, x);
  const TensorSpec inverse = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, x);
  return {{x, scale, bias, mean, inverse}, {y}, [=](Frame& frame) {
            const Values in = frame.load(x);
            Values out(in.size());
            dense::normalise(rows_of(x), static_cast<std::size_t>(x.dims[1]), in.data(),
                             frame.load(mean).data(), frame.load(inverse).data(), frame.load(scale).data(),
                             frame.load(bias).data(), out.data());
            frame.store(y, out);
          }};
}

}  // namespace

Step norm_forward(const Content& operation) {
  require_batch_norm(operation, CUDNN_ATTR_OPERATION_NORM_FWD_MODE);
  const TensorSpec x = activation(operation, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  const TensorSpec y = activation(operation, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
  require_shape(x.dims == y.dims, operation, shape_of(x) + " and " + shape_of(y));
  const TensorSpec scale = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, x);
  const TensorSpec bias = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, x);
  const auto phase = operation.value<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE);
  if (phase == CUDNN_NORM_FWD_INFERENCE) return inference(operation, x, scale, bias, y);

  require(operation,
          {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
           CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC},
          "epsilon, mean or inverse deviation, which training needs");
  const TensorSpec epsilon = scalar(operation, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
  const TensorSpec mean = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, x);
  const TensorSpec inverse = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, x);
  const std::vector<Running> running = running_of(operation, x);
  Step step{{x, scale, bias, epsilon}, {y, mean, inverse}, {}};
  for (const Running& r : running) {
    step.inputs.insert(step.inputs.end(), {r.factor, r.mean, r.variance});
    step.outputs.insert(step.outputs.end(), {r.next_mean, r.next_variance});
  }
  step.run = [=](Frame& frame) {
    const auto channels = static_cast<std::size_t>(x.dims[1]);
    const Values in = frame.load(x);
    std::vector<double> means(channels);
    std::vector<double> variances(channels);
    dense::batch_statistics(rows_of(x), channels, in.data(), means.data(), variances.data());
    Values inverses(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      inverses[c] =
          static_cast<float>(1.0 / std::sqrt(variances[c] + static_cast<double>(frame.scalar(epsilon))));
    }
    const Values rounded(means.begin(), means.end());
    Values out(in.size());
    dense::normalise(rows_of(x), channels, in.data(), rounded.data(), inverses.data(),
                     frame.load(scale).data(), frame.load(bias).data(), out.data());
    frame.store(y, out);
    frame.store(mean, rounded);
    frame.store(inverse, inverses);
    for (const Running& r : running) update(frame, r, means, variances, rows_of(x));
  };
  return step;
}

Step norm_backward(const Content& operation) {
  require_batch_norm(operation, CUDNN_ATTR_OPERATION_NORM_BWD_MODE);
  const TensorSpec x = activation(operation, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  const TensorSpec dy = activation(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC);
  const TensorSpec dx = activation(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC);
  require_shape(x.dims == dy.dims && x.dims == dx.dims, operation, "x, dy and dx are of different shapes");
  const TensorSpec mean = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, x);
  const TensorSpec inverse = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, x);
  const TensorSpec scale = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, x);
  const TensorSpec dscale = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, x);
  const TensorSpec dbias = by_channel(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, x);
  return {{x, dy, mean, inverse, scale}, {dx, dscale, dbias}, [=](Frame& frame) {
            const auto channels = static_cast<std::size_t>(x.dims[1]);
            const Values in = frame.load(x);
            Values out(in.size());
            Values scales(channels);
            Values biases(channels);
            dense::batch_norm_gradient(rows_of(x), channels, in.data(), frame.load(dy).data(),
                                       frame.load(mean).data(), frame.load(inverse).data(),
                                       frame.load(scale).data(), out.data(), scales.data(), biases.data());
            frame.store(dx, out);
            frame.store(dscale, scales);
            frame.store(dbias, biases);
          }};
}

}  // namespace cuda_double
