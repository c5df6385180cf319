// Batch norm in training, and its gradients.
#include "backend/cuda/cudnn/families.hpp"

namespace dtrain::backend::cuda {

namespace {

Dims dims(const ActivationShape& s) { return {s.batch, s.channels, s.height, s.width}; }

}  // namespace

OperationGraph build(const BatchNormForward& spec, const std::string& signature, cudnnHandle_t handle) {
  const int channels = spec.shape.channels;
  GraphBuilder builder(spec.element);
  const Descriptor& y = builder.tensor(Role::y, dims(spec.shape));
  const Descriptor& normalised = spec.relu ? builder.intermediate(dims(spec.shape)) : y;

  Descriptor op(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_BATCH_NORM)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, builder.tensor(Role::x, dims(spec.shape)))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, builder.vector(Role::gamma, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, builder.vector(Role::beta, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, builder.scalar(Role::epsilon, spec.epsilon))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, builder.vector(Role::mean, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, builder.vector(Role::inverse_deviation, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, normalised);
  builder.operation(std::move(op));

  if (spec.relu) builder.relu(normalised, y);
  return builder.finish(signature, handle);
}

OperationGraph build(const BatchNormBackward& spec, const std::string& signature, cudnnHandle_t handle) {
  const int channels = spec.shape.channels;
  GraphBuilder builder(spec.element);
  Descriptor op(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_BATCH_NORM)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, builder.tensor(Role::x, dims(spec.shape)))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, builder.vector(Role::mean, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, builder.vector(Role::inverse_deviation, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, builder.tensor(Role::dy, dims(spec.shape)))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, builder.vector(Role::gamma, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, builder.vector(Role::dgamma, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, builder.vector(Role::dbeta, channels))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, builder.tensor(Role::dx, dims(spec.shape)));
  builder.operation(std::move(op));
  return builder.finish(signature, handle);
}

}  // namespace dtrain::backend::cuda
