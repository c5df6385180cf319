// Max pooling, and the scattering of its gradient.
#include <array>

#include "backend/cuda/cudnn/families.hpp"

namespace dtrain::backend::cuda {

namespace {

Dims pooled(const ActivationShape& s, int size) {
  return {s.batch, s.channels, s.height / size, s.width / size};
}

// The pixels in complete windows, as a part of the whole: the others are neither read nor written.
const Descriptor& unpooled(GraphBuilder& builder, Role role, const ActivationShape& s, int size) {
  return builder.part(role, {s.batch, s.channels, s.height / size * size, s.width / size * size},
                      {s.batch, s.channels, s.height, s.width});
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
  Descriptor op(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, pooling(builder, spec.size))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, unpooled(builder, Role::x, spec.shape, spec.size))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, builder.tensor(Role::y, out));
  if (spec.index) op.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, builder.pooling_index(out));
  builder.operation(std::move(op));
  return builder.finish(signature, handle);
}

OperationGraph build(const MaxPoolBackward& spec, const std::string& signature, cudnnHandle_t handle) {
  const Dims out = pooled(spec.shape, spec.size);
  GraphBuilder builder(spec.element);
  Descriptor op(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, pooling(builder, spec.size))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, unpooled(builder, Role::dx, spec.shape, spec.size))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, builder.tensor(Role::dy, out))
      .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, builder.pooling_index(out));
  builder.operation(std::move(op));
  return builder.finish(signature, handle);
}

}  // namespace dtrain::backend::cuda
