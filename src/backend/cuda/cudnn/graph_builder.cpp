#include "backend/cuda/cudnn/graph_builder.hpp"

namespace dtrain::backend::cuda {

namespace {

cudnnDataType_t data_type(Element element) {
  switch (element) {
    case Element::f32:
      return CUDNN_DATA_FLOAT;
    case Element::bf16:
      return CUDNN_DATA_BFLOAT16;
    case Element::f16:
      return CUDNN_DATA_HALF;
  }
  throw std::logic_error("no such element");
}

Dims channels_closest(const Dims& dims) {
  const std::int64_t c = dims[1];
  const std::int64_t h = dims[2];
  const std::int64_t w = dims[3];
  return {h * w * c, 1, w * c, c};
}

std::size_t elements(const Dims& dims) {
  std::size_t product = 1;
  for (const std::int64_t dim : dims) product *= static_cast<std::size_t>(dim);
  return product;
}

std::int64_t uid(Role role) { return static_cast<std::int64_t>(role); }

Descriptor pointwise(cudnnPointwiseMode_t mode) {
  Descriptor descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  return descriptor;
}

}  // namespace

const Descriptor& GraphBuilder::tensor(Role role, const Dims& dims) {
  bind(role, elements(dims) * size_of(graph_.element));
  return keep(start_tensor(uid(role), data_type(graph_.element), dims));
}

const Descriptor& GraphBuilder::pooling_index(const Dims& dims) {
  bind(Role::index, elements(dims));
  return keep(start_tensor(uid(Role::index), CUDNN_DATA_INT8, dims));
}

const Descriptor& GraphBuilder::vector(Role role, int channels) {
  const Dims dims{1, channels, 1, 1};
  bind(role, elements(dims) * sizeof(float));
  return keep(start_tensor(uid(role), CUDNN_DATA_FLOAT, dims));
}

const Descriptor& GraphBuilder::scalar(Role role, float value) {
  const Dims dims{1, 1, 1, 1};
  graph_.scalars.push_back({role, value});
  Descriptor descriptor = start_tensor(uid(role), CUDNN_DATA_FLOAT, dims);
  descriptor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  return keep(std::move(descriptor));
}

const Descriptor& GraphBuilder::intermediate(const Dims& dims) {
  Descriptor descriptor = start_tensor(next_intermediate_++, CUDNN_DATA_FLOAT, dims);
  descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  return keep(std::move(descriptor));
}

const Descriptor& GraphBuilder::parameter(Descriptor& descriptor) { return keep(std::move(descriptor)); }

void GraphBuilder::operation(Descriptor descriptor) {
  descriptor.finalize();
  operations_.push_back(std::move(descriptor));
}

void GraphBuilder::add(const Descriptor& x, const Descriptor& b, const Descriptor& y) {
  Descriptor addition = pointwise(CUDNN_POINTWISE_ADD);
  Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parameter(addition))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  operation(std::move(op));
}

void GraphBuilder::relu(const Descriptor& x, const Descriptor& y) {
  Descriptor activation = pointwise(CUDNN_POINTWISE_RELU_FWD);
  Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parameter(activation))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  operation(std::move(op));
}

OperationGraph GraphBuilder::finish(std::string signature, cudnnHandle_t handle) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const Descriptor>(operations_)).finalize();
  for (Descriptor& op : operations_) {
    graph_.parts.push_back(std::make_shared<const Descriptor>(std::move(op)));
  }
  graph_.signature = std::move(signature);
  graph_.descriptor = std::make_shared<const Descriptor>(std::move(graph));
  return std::move(graph_);
}

const Descriptor& GraphBuilder::keep(Descriptor descriptor) {
  descriptor.finalize();
  graph_.parts.push_back(std::make_shared<const Descriptor>(std::move(descriptor)));
  return *graph_.parts.back();
}

Descriptor GraphBuilder::start_tensor(std::int64_t uid, cudnnDataType_t type, const Dims& dims) {
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, channels_closest(dims))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{alignment_bytes});
  return descriptor;
}

}  // namespace dtrain::backend::cuda
