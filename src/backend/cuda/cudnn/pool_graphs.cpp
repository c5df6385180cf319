// Max pooling, and the scattering of its gradient.
#include <array>

#include "backend/cuda/cudnn/families.hpp"

namespace dtrain::backend::cuda {

namespace {

Dims unpooled(const ActivationShape& s) { return {s.batch, s.channels, s.height, s.width}; }

Dims pooled(const ActivationShape& s, int size) {
  return {s.batch, s.channels, s.height / size, s.width / size};
}

const Descriptor& pooling(GraphBuilder& builder, int size) {
  const std::vector<cudnnFraction_t> window(2, {size, 1});
  const std::vector<cudnnFraction_t> no_padding(2, {0, 1});
  Descriptor descriptor(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_RESAMPLE_MAXPOOL)
      .set(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_NEG_INF_PAD)
      .set(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, window)
      .set(CUDNN_ATTR_RESAMPLE_STRIDES, window)
      .set(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, no_padding)
      .set(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, no_padding);
  return builder.parameter(descriptor);
}

}  // namespace

OperationGraph build(const MaxPoolForward& spec, const std::string& signature, cudnnHandle_t handle) {
  const Dims out = pooled(spec.shape, spec.size);
  GraphBuilder builder(spec.element);
  builder.without_products();
  Descriptor op(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, pooling(builder, spec.size))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, builder.tensor(Role::x, unpooled(spec.shape)))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, builder.tensor(Role::y, out));
  if (spec.index) op.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, builder.pooling_index(out));
  builder.operation(std::move(op));
  return builder.finish(signature, handle);
}

OperationGraph build(const MaxPoolBackward& spec, const std::string& signature, cudnnHandle_t handle) {
  const Dims out = pooled(spec.shape, spec.size);
  GraphBuilder builder(spec.element);
  builder.without_products();
  Descriptor op(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, pooling(builder, spec.size))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, builder.tensor(Role::dx, unpooled(spec.shape)))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, builder.tensor(Role::dy, out))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, builder.pooling_index(out));
  builder.operation(std::move(op));
  return builder.finish(signature, handle);
}

}  // namespace dtrain::backend::cuda
